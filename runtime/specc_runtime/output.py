"""From committed tokens to what the caller sees: ids and text, held back while they may belong to a stop string."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from specc_runtime.stop import StopMatcher
from specc_runtime.text import TextStream

Streamer = Callable[[str], object]


class Given(NamedTuple):
    """ids: to give out now. taken: how many of the offered tokens belong to the text. stopped: by a stop string."""

    ids: list[int]
    taken: int
    stopped: bool


class Output:
    """The ids and the text of one generation, cut at the same place.

    With stop strings an id is given out once all its text is known to lie before any of them, so no id that carries
    a part of a stop string ever is; the text itself ends right before the stop string. Without stop strings and
    streamer no text is made here.

    stream: decodes ids to text; None if neither stop strings nor a streamer need it. streamer: called with each piece.
    """

    def __init__(self, stream: TextStream | None, stop_strings: Sequence[str], streamer: Streamer | None) -> None:
        self.ids: list[int] = []
        self._stream = stream
        self._streamer = streamer
        self._matcher = StopMatcher(stop_strings)
        self._pieces: list[str] = []
        self._unplaced: list[int] = []  # ids whose text is not known yet
        self._held: deque[tuple[int, int]] = deque()  # ids not yet given out, and the length of the text up to each
        self._length = 0

    @property
    def text(self) -> str | None:
        """The text so far; None if no text is made here."""
        return None if self._stream is None else "".join(self._pieces)

    def add(self, tokens: Sequence[int]) -> Given:
        """Take a round's tokens, none behind the one that completes a stop string."""
        if self._stream is None:
            self.ids += tokens
            return Given(list(tokens), len(tokens), False)
        for taken, token in enumerate(tokens, start=1):
            if self._show(*self._matcher.feed(self._push(self._stream, token))):
                return Given(self._release(), taken, True)
        return Given(self._release(), len(tokens), False)

    def finish(self) -> Given:
        """No token follows: what was held back is given out, up to a stop string if there is one after all."""
        if self._stream is None:
            return Given([], 0, False)
        last = self._stream.flush()
        self._place(last)
        stopped = self._show(*self._matcher.feed(last)) or self._show(*self._matcher.flush())
        return Given(self._release(), 0, stopped)

    def _push(self, stream: TextStream, token: int) -> str:
        piece = stream.push(token)
        self._unplaced.append(token)
        if not stream.holding:
            self._place(piece)
        return piece

    def _place(self, piece: str) -> None:
        """`piece` is the text of the ids that have none yet: all bytes of a character end where the character ends."""
        self._length += len(piece)
        self._held.extend((token, self._length) for token in self._unplaced)
        self._unplaced.clear()

    def _show(self, piece: str, stopped: bool) -> bool:
        if piece:
            self._pieces.append(piece)
            if self._streamer is not None:
                self._streamer(piece)
        return stopped

    def _release(self) -> list[int]:
        released = []
        while self._held and self._held[0][1] <= self._matcher.emitted:
            released.append(self._held.popleft()[0])
        self.ids += released
        return released
