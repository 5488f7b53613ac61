"""The tokens a sequence has committed so far, and how often each occurs once a penalty asks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TokenHistory:
    """Committed token ids of one sequence: the prompt, then every emitted token.

    Drafted tokens never enter it: what a drafted position sees is derived from the history and the draft before it.
    vocab_rows: ids are below it.
    """

    def __init__(self, prompt: Sequence[int] | NDArray[np.int64], vocab_rows: int) -> None:
        self._buffer = np.array(prompt, dtype=np.int64)
        self._length = self.prompt_length = len(self._buffer)
        self._vocab_rows = vocab_rows
        self._tallied = 0
        self._seen: NDArray[np.bool_] | None = None
        self._counts: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return self._length

    @property
    def ids(self) -> NDArray[np.int64]:
        """All committed ids, int64 `[len]`: a view, valid until the next `extend`."""
        return self._buffer[: self._length]

    @property
    def generated(self) -> int:
        """How many of the ids were emitted, not given."""
        return self._length - self.prompt_length

    def extend(self, tokens: Sequence[int]) -> None:
        """Commit emitted `tokens`."""
        end = self._length + len(tokens)
        if end > len(self._buffer):
            self._buffer = np.resize(self._buffer, max(2 * end, 256))
        self._buffer[self._length : end] = tokens
        self._length = end

    def occurrences(self) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which ids occur anywhere, bool `[vocab_rows]`, and how often each does in the output, float32 `[vocab_rows]`.

        Views. Counted on the first call; a later call counts only what was added since.
        """
        if self._seen is None or self._counts is None:
            self._seen = np.zeros(self._vocab_rows, dtype=np.bool_)
            self._counts = np.zeros(self._vocab_rows, dtype=np.float32)
        self._seen[self._buffer[self._tallied : self._length]] = True
        np.add.at(self._counts, self._buffer[max(self._tallied, self.prompt_length) : self._length], 1)
        self._tallied = self._length
        return self._seen, self._counts
