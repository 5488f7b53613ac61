"""Elapsed time on a progress bar that counts whole seconds."""

from collections.abc import Callable


class WholeSeconds:
    """Called with the seconds elapsed so far; passes on each whole second once."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance, self._told = advance, 0

    def __call__(self, elapsed: float) -> None:
        if elapsed >= self._told + 1:
            self._advance(int(elapsed) - self._told)
            self._told = int(elapsed)
