"""Which columns top-k and top-p keep, found without sorting the vocabulary. Ties at the threshold are all kept."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Weights: TypeAlias = NDArray[np.floating[Any]]
Columns: TypeAlias = NDArray[np.intp]

_GROUPS = 1024
"""Columns are folded into this many groups by `largest`; it serves k up to half of them."""

_LIKELY_FLOORS = (1e-3, 1e-4)
"""Shares of the total that the least likely token of most nuclei exceeds: tried before the bound that always holds."""


def largest(values: Weights, k: int) -> Columns:
    """Columns of the `k` largest of `values` `[V]`, ascending, and of all that equal the k-th; k >= 1.

    The k largest of the groups' maxima are values of k different columns, so the least of them is a lower bound of the
    k-th largest; the few columns that reach it are all that is partitioned.
    """
    folded = len(values) // _GROUPS * _GROUPS
    if k > _GROUPS // 2 or not folded:
        return _reaching(values, _kth_largest(values, k))
    maxima = values[:folded].reshape(-1, _GROUPS).max(axis=0)
    columns = _reaching(values, _kth_largest(maxima, k))
    candidates = values[columns]
    return columns[_reaching(candidates, _kth_largest(candidates, k))]


def nucleus(weights: Weights, top_p: float, total: float) -> Columns:
    """Columns of the fewest likeliest tokens that hold `top_p` of `total`, the sum of `weights` `[V]`; ascending.

    Holtzman et al. 2020. Columns below (1 - top_p) / V of the total hold less than 1 - top_p of it together, so the
    others hold the nucleus; only they are sorted, and where those above a higher floor hold enough, only those.
    """
    certain = 0.999 * (1 - top_p) / len(weights)  # 0.999: no rounding of `total` may cut into the nucleus
    for floor in (max(certain, _LIKELY_FLOORS[0]), max(certain, _LIKELY_FLOORS[1]), certain):
        columns = _reaching(weights, floor * total)
        candidates = weights[columns]
        descending = np.sort(candidates)[::-1]
        held = descending.cumsum(dtype=np.float64)
        if len(held) and held[-1] >= top_p * total:
            break
    last = min(int(held.searchsorted(top_p * total)), len(held) - 1)
    kept: Columns = columns[candidates >= descending[last]]
    return kept


def _kth_largest(values: Weights, k: int) -> np.floating[Any]:
    kth: np.floating[Any] = np.partition(values, -k)[-k] if k < len(values) else values.min()
    return kth


def _reaching(values: Weights, floor: float | np.floating[Any]) -> Columns:
    return (values >= floor).nonzero()[0]
