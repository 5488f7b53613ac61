"""How long steps tell whoever watches how far they are: the compiler reports, the command line draws."""

from types import TracebackType
from typing import Protocol, Self


class Step(Protocol):
    """One running step, used as a context manager. Leaving it ends the step, finished or failed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more of the step's total as done."""
        ...


class Progress(Protocol):
    """Where steps are announced."""

    def step(self, title: str, total: int | None = None) -> Step:
        """Begin a step of `total` units of work; None when the amount is not known beforehand."""
        ...


class Silent:
    """A Progress, and every Step of it, that shows nothing."""

    def step(self, title: str, total: int | None = None) -> "Silent":
        """Begin a step nobody watches."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def advance(self, amount: int = 1) -> None:
        """Nothing to show."""
