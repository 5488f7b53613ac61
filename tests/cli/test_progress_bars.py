import io
from types import SimpleNamespace

import pytest

from specc.cli.progress_bars import shown_progress
from specc.progress import Silent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_steps() -> None:
    with shown_progress() as progress:
        with progress.step("reading", total=4) as step:
            step.advance(3)
            step.advance()
        with pytest.raises(ZeroDivisionError), progress.step("lowering"):
            raise ZeroDivisionError


def test_lines_when_stderr_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    run_steps()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("reading: took ")
    assert second.startswith("lowering: failed after ")


def test_a_long_step_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = io.StringIO(), iter([0.0, 29.0, 31.0, 40.0, 62.0, 63.0])
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("specc.cli.progress_bars.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with shown_progress() as progress, progress.step("training", total=8) as step:
        for _ in range(4):
            step.advance()
    assert stream.getvalue().splitlines() == [
        "training: 25% after 31 s",
        "training: 50% after 62 s",
        "training: took 63.0 s",
    ]


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    run_steps()
    screen = stream.getvalue()

    def mark(title: str) -> str:
        return screen[: screen.rindex(title)][-8:]

    assert "✓" in mark("reading"), "a finished step is ticked off"
    assert "✓" not in mark("lowering"), "a failed one is not"


def test_silent_progress_takes_the_same_steps() -> None:
    with Silent().step("anything", total=2) as step:
        step.advance()
