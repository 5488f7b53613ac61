"""A drafter that reads the verifier's features: in the EAGLE line (Li et al. 2024, 2025)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime.cache import ModelCache
from specc_runtime.drafting.model import ModelDrafter
from specc_runtime.engines.base import Logits, Tokens
from specc_runtime.history import TokenHistory
from specc_runtime.warp import Warper


class FeatureDrafter(ModelDrafter):
    """A `ModelDrafter` whose row i holds token i + 1 together with the verifier's feature of row i.

    After n committed tokens the verifier has left true features in rows 0 ... n - 2. The first step of a round feeds
    all of those that were not fed yet: after a round those of its accepted tokens, else what is missing. The steps
    behind it read what the drafter itself predicts, which the engine keeps in the rows that the verifier writes next:
    until it has, no row from n - 1 on is trusted, the verifier's included, and then the drafter's are not.

    verifier: the verifier's cache, which `cache` follows.
    """

    lag = 1

    def __init__(
        self,
        cache: ModelCache,
        warper: Warper,
        *,
        verifier: ModelCache,
        greedy: bool,
        context: int,
        columns: int,
        max_gamma: int,
        law_ids: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(
            cache, warper, greedy=greedy, context=context, columns=columns, max_gamma=max_gamma, law_ids=law_ids
        )
        self._verifier = verifier
        self._widest = min(max_gamma + 1, cache.max_width)

    def _first_step(self, history: TokenHistory) -> Logits:
        known = history.ids[1:]
        self._verifier.forget(len(known))
        start = min(self.cache.agreed(known), len(known) - 1)
        if len(known) - start > self._widest:
            self.refill(history, 1)
            start = len(known) - 1
        return self.cache.feed(known[start:], start, 1)

    def round_tokens(self, gamma: int) -> int:
        return gamma + 1

    def record_round(self, fed: Tokens, accepted: Sequence[int], committed: int) -> None:
        self.cache.record(fed, committed - len(fed) - 1)  # what it fed behind them read predicted features
