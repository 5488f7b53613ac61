"""Where a text ends: stop strings in streamed text, stop ids among emitted tokens."""

from collections.abc import Collection, Iterable


class StopMatcher:
    """Finds stop strings in a text that arrives in pieces, and holds back whatever might be the start of one.

    The stop string that starts earliest in the text wins. The outcome depends on the text alone, not on how it was cut
    into pieces: while a longer stop string that started earlier may still be completed, a match found inside it waits.
    """

    def __init__(self, stop_strings: Iterable[str]) -> None:
        self._stops = tuple(stop_strings)
        self._pending = ""
        self.emitted = 0
        """Characters given out so far; once stopped, the length of the whole text."""

    def feed(self, piece: str) -> tuple[str, bool]:
        """Add `piece`; the text that is now safe to give out, and whether a stop string ended the text before it."""
        self._pending += piece
        match = self._first_match()
        unfinished = self._first_unfinished()
        if match <= unfinished and match < len(self._pending):
            return self._give(match), True
        return self._give(min(match, unfinished)), False

    def flush(self) -> tuple[str, bool]:
        """The text ends here: what was held back, up to a stop string if there is one."""
        match = self._first_match()
        stopped = match < len(self._pending)
        return self._give(match), stopped

    def _give(self, end: int) -> str:
        text, self._pending = self._pending[:end], self._pending[end:]
        self.emitted += end
        return text

    def _first_match(self) -> int:
        """Start of the earliest stop string in the pending text, its length if there is none."""
        found = (self._pending.find(stop) for stop in self._stops)
        return min((at for at in found if at >= 0), default=len(self._pending))

    def _first_unfinished(self) -> int:
        """Start of the earliest tail of the pending text that begins, without completing, a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        for at in range(max(0, len(self._pending) - longest), len(self._pending)):
            tail = self._pending[at:]
            if any(len(tail) < len(stop) and stop.startswith(tail) for stop in self._stops):
                return at
        return len(self._pending)


def cut_at(ids: Iterable[int], stop_ids: Collection[int]) -> int | None:
    """Index of the first of `ids` that is in `stop_ids`; None if none is."""
    return next((i for i, token in enumerate(ids) if token in stop_ids), None)
