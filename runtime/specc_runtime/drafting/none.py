"""No drafter: every round is one plain step of the verifier."""

import numpy as np
from numpy.typing import NDArray

from specc_runtime.drafting.base import NO_DRAFT, Draft
from specc_runtime.history import TokenHistory


class NoDrafter:
    """A `Drafter` that never drafts."""

    def limit(self, committed: int) -> int:
        return 0

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        return NO_DRAFT
