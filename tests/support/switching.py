"""A drafter that is another one every round."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime.drafting.base import Draft, Drafter
from specc_runtime.history import TokenHistory


class SwitchingDrafter:
    """Uses `drafters` in turn. Rounds of one leave holes in the caches of the others."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = drafters
        self._rounds = 0

    def limit(self, committed: int) -> int:
        """Asked once a round, also by a round that then drafts nothing."""
        self._rounds += 1
        return self._now.limit(committed)

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        return self._now.propose(history, gamma, uniforms)

    @property
    def _now(self) -> Drafter:
        return self._drafters[(self._rounds - 1) % len(self._drafters)]
