"""A small model that drafts: its own cache, kept right through rejections, pauses and switches."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from specc_runtime.accept import draw
from specc_runtime.cache import ModelCache
from specc_runtime.drafting.base import Draft
from specc_runtime.engines.base import Logits, Tokens
from specc_runtime.history import TokenHistory
from specc_runtime.law_rows import LawRows
from specc_runtime.warp import Warper


class ModelDrafter:
    """A `Drafter` that samples from a model, warped by the request's options; at temperature 0 it takes the likeliest.

    The first step of a round feeds the last two committed tokens: after a fully accepted draft the last drafted token
    was never fed, and rewriting one row when it was costs nothing. Any wider hole is refilled before it.

    context: positions the drafter may use; beyond them it drafts nothing. max_gamma: most tokens of one draft.
    law_ids: int64 `[Vd]`, full id of each column of a trimmed head, else None.
    lag: how many rows before its own index in the text a token's row is.
    """

    lag: ClassVar[int] = 0

    def __init__(
        self,
        cache: ModelCache,
        warper: Warper,
        *,
        greedy: bool,
        context: int,
        columns: int,
        max_gamma: int,
        law_ids: NDArray[np.int64] | None = None,
    ) -> None:
        self.cache = cache
        self._warper = warper
        self._greedy = greedy
        self._context = context
        self._law_ids = law_ids
        self._laws = LawRows(0 if greedy else max_gamma, columns)

    def limit(self, committed: int) -> int:
        return max(0, self._context - committed + 1)  # the last drafted token is not fed

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        drafted: list[int] = []
        for u in uniforms.tolist():
            logits = self._next_step(history, drafted) if drafted else self._first_step(history)
            drafted.append(self._pick(logits, history, drafted, u))
        ids = np.array(drafted, np.int64)
        return Draft(ids) if self._greedy else Draft(ids, self._laws.values[: len(ids)], self._law_ids)

    def _first_step(self, history: TokenHistory) -> Logits:
        """Logits `[1, Vd]` after the committed tokens."""
        self.refill(history, 2)
        return self.cache.feed(history.ids[-2:], len(history) - 2, 1)

    def _next_step(self, history: TokenHistory, drafted: Sequence[int]) -> Logits:
        """Logits `[1, Vd]` after the committed tokens and all of `drafted`, of which the last was not fed yet."""
        row = len(history) + len(drafted) - 1 - self.lag
        return self.cache.feed(np.array(drafted[-1:], np.int64), row, 1)

    def refill(self, history: TokenHistory, left: int) -> None:
        """Feed what the cache lacks of the committed tokens but the last `left`."""
        known: Tokens = history.ids[self.lag : len(history) - left]
        start = self.cache.agreed(known)
        if start < len(known):
            self.cache.extend(known, start)

    def round_tokens(self, gamma: int) -> int:
        """Committed tokens that a `round` program's first draft step feeds."""
        return 2

    def record_round(self, fed: Tokens, accepted: Sequence[int], committed: int) -> None:
        """Note what a `round` program fed: the last of `committed` tokens, then those of its drafted that stand."""
        self.cache.record([*fed.tolist(), *accepted], committed - len(fed))

    def _pick(self, logits: Logits, history: TokenHistory, drafted: Sequence[int], u: float) -> int:
        if self._greedy:
            return self._warper.greedy(logits, history, drafted)[0]
        law = self._warper.laws(logits, history, drafted, out=self._laws, first=len(drafted))[0]
        return self._warper.token_id(draw(law, u))
