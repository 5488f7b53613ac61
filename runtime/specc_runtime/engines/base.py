"""What every engine gives the decoding loop: the bundle's programs as calls on token arrays, state kept inside.

One `Programs` object serves one sequence at a time (batch 1). Positions are cache rows: `position` is where the first
of the given tokens is written. Rejection needs no call: feeding at an earlier position overwrites what was there.
Returned arrays are views that stay valid until the next call on the same object.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]
Logits = NDArray[np.float32]


@dataclass(frozen=True)
class RoundResult:
    """What an in-graph round gave back: `ids[:count]` are the emitted tokens (accepted ones, then one more)."""

    ids: Tokens
    count: int


class Programs(Protocol):
    """The programs of one loaded bundle."""

    def verify(self, tokens: Tokens, position: int, rows: int) -> Logits:
        """Feed the verifier `tokens` `[S]` at cache rows `position ...`; logits `[rows, V]` of the last `rows` of them.

        Serves prefill chunks (`rows` 0 or 1), plain decoding (S 1, rows 1) and verification (rows = S).
        """
        ...

    def draft(self, drafter: str, tokens: Tokens, position: int) -> Logits:
        """Feed drafter `drafter` `tokens` `[S]`; its logits `[head_rows]` after the last of them."""
        ...

    def catchup(self, drafter: str, tokens: Tokens, position: int) -> None:
        """Feed drafter `drafter` known `tokens` `[S]`; nothing comes back."""
        ...

    def max_width(self, owner: str) -> int:
        """Most tokens one call may feed to `owner` ("verifier" or a drafter's key)."""
        ...

    def reset(self) -> None:
        """Start a new sequence: every cache row may be treated as unwritten."""
        ...
