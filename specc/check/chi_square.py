"""Pearson's chi-square test against a uniform law, without scipy."""

import math

import numpy as np
from numpy.typing import NDArray


def chi_square_p(counts: NDArray[np.int64]) -> float:
    """Probability of a statistic at least as large, if every bin is equally likely."""
    expected = counts.sum() / len(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return upper_gamma((len(counts) - 1) / 2, statistic / 2)


def upper_gamma(shape: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(shape, x), for shape a multiple of 1/2.

    Built up from Q(1/2, x) = erfc(sqrt x) or Q(1, x) = exp(-x) by Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1).
    """
    if x <= 0:
        return 1.0
    a = 0.5 if shape % 1 else 1.0
    total = math.erfc(math.sqrt(x)) if shape % 1 else math.exp(-x)
    while a < shape:
        total += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    return min(total, 1.0)


def uniform_counts(places: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """How many of `places` in [0, 1) fall into each of `bins` equal bins."""
    return np.bincount((places * bins).astype(np.int64), minlength=bins)
