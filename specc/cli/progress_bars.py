"""specc.progress drawn on stderr: bars on a terminal, a line a step elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from specc.cli.output import console
from specc.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A Progress that is drawn until the context is left."""
    if not sys.stderr.isatty():
        yield _Lines(sys.stderr)
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr)) as bars:
        yield _Bars(bars)


class _Bars:
    def __init__(self, bars: "Bars") -> None:
        self._bars = bars

    def step(self, title: str, total: int | None = None) -> "_BarStep":
        return _BarStep(self._bars, self._bars.add_task(title, total=total), total)


class _BarStep:
    def __init__(self, bars: "Bars", task: "TaskID", total: int | None) -> None:
        self._bars, self._task, self._total = bars, task, total

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            total = self._total if self._total is not None else 1
            self._bars.update(self._task, total=total, completed=total)
        self._bars.stop_task(self._task)

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._task, amount)


class _Lines:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def step(self, title: str, total: int | None = None) -> "_LineStep":
        return _LineStep(self._stream, title, total)


class _LineStep:
    """A line at the end, and one in every half minute that a step with a known end takes."""

    def __init__(self, stream: IO[str], title: str, total: int | None) -> None:
        self._stream, self._title, self._total = stream, title, total
        self._start = self._told = time.monotonic()
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = "failed after" if error is not None else "took"
        self._write(f"{outcome} {time.monotonic() - self._start:.1f} s")

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if self._total and now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            self._write(f"{min(self._done / self._total, 1):.0%} after {now - self._start:.0f} s")

    def _write(self, news: str) -> None:
        self._stream.write(f"{self._title}: {news}\n")
        self._stream.flush()
