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
        self._round = 0

    def limit(self, committed: int) -> int:
        return self._drafters[self._round % len(self._drafters)].limit(committed)

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        self._round += 1
        return self._drafters[(self._round - 1) % len(self._drafters)].propose(history, gamma, uniforms)
