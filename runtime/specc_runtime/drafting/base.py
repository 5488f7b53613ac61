"""What the decoding loop asks of a drafter."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specc_runtime.history import TokenHistory


@dataclass(frozen=True)
class Draft:
    """Drafted tokens and the laws they were drawn from.

    ids: int64 `[g]`, full token ids. laws: float32 `[g, Vd]`, row i the law ids[i] was drawn from; None: each id was
    certain (its law is one-hot). law_ids: int64 `[Vd]`, token id of each column of laws; None: column v is id v.
    """

    ids: NDArray[np.int64]
    laws: NDArray[np.float32] | None = None
    law_ids: NDArray[np.int64] | None = None


class Drafter(Protocol):
    """Proposes tokens that may follow a text. It only steers speed: any proposal leaves the output's law unchanged."""

    def limit(self, committed: int) -> int:
        """Most tokens it can draft after a text of `committed` tokens."""
        ...

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        """At most `gamma` tokens (1 to `limit`) after `history`, token i drawn with `uniforms[i]`, float64 `[gamma]`.

        It may look at nothing else: a draft that depends on what the verifier will draw biases the output.
        """
        ...


NO_DRAFT = Draft(np.zeros(0, np.int64))
UNLIMITED = 1 << 30
