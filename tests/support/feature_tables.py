"""A table engine whose drafter reads features: numbers that change with every token before, and when predicted.

A drafter's row keeps the feature it was computed from, so a row fed from a stale or a predicted feature answers
differently from one fed from the true feature.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.table_programs import TablePrograms, with_memory

FeatureLogitsOf = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float32]]
"""Tokens and features of all rows up to the row's own -> logits of the next token."""

_PLACES = np.random.default_rng(11).normal(size=997)


class FeatureTablePrograms(TablePrograms):
    """`TablePrograms` whose "draft" reads features; its model is a `FeatureLogitsOf`."""

    def __init__(self, models: Any, *, rows: Any, max_width: int, rounds: Any = ()) -> None:
        super().__init__(models, rows=rows, max_width=max_width, rounds=rounds)
        self.features = np.full(rows["verifier"], np.nan)
        self.fails: tuple[str, int] | None = None  # an owner, and how many of its feeds from now on succeed
        self._read = np.full(rows["draft"], np.nan)

    def reset(self) -> None:
        super().reset()
        self.features.fill(np.nan)

    def _feed(self, owner: str, tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        self._fail_if_due(owner)
        if owner == "verifier":
            logits = super()._feed(owner, tokens, position, rows)
            for row in range(position, position + len(tokens)):
                self.features[row] = true_feature(self._caches[owner][: row + 1])
            return logits
        end = position + len(tokens)
        self._read[position:end] = self.features[position:end]
        self._read[end:] = np.nan
        assert not np.isnan(self._read[:end]).any(), "a feature is read that nobody left"
        logits = super()._feed(owner, tokens, position, rows)
        if rows:
            self.features[end] = 10 + np.sin(self._read[end - 1] + tokens[-1])  # no true feature is as large
        return logits

    def _lag(self, drafter: str) -> int:
        return 1

    def _fail_if_due(self, owner: str) -> None:
        if self.fails is not None and self.fails[0] == owner:
            self.fails = None if self.fails[1] == 0 else (owner, self.fails[1] - 1)
            if self.fails is None:
                raise RuntimeError("engine")

    def _logits(self, owner: str, seen: NDArray[np.int64]) -> NDArray[np.float32]:
        if owner == "verifier":
            return super()._logits(owner, seen)
        model: FeatureLogitsOf = self._models[owner]  # type: ignore[assignment]
        return model(seen, self._read[: len(seen)])


def true_feature(tokens: NDArray[np.int64]) -> float:
    """What the verifier leaves after `tokens`: between -1 and 1, and another for every text."""
    return float(np.sin(((tokens + 1) * _PLACES[: len(tokens)]).sum()))


def reading_features(vocabulary: int, seed: int) -> FeatureLogitsOf:
    """A drafter that changes with every token and every feature of its rows."""
    by_token = with_memory(vocabulary, seed)
    directions = np.random.default_rng(seed + 1).normal(size=vocabulary)

    def logits_of(tokens: NDArray[np.int64], features: NDArray[np.float64]) -> NDArray[np.float32]:
        mixed = (features * _PLACES[: len(features)]).sum()
        return by_token(tokens) + np.sin(3 * mixed + directions).astype(np.float32)

    return logits_of
