"""Sums of non-negative weights over a vocabulary: fast, and as exact as the weights themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 256
"""Weights summed in their own precision before float64 takes over: the rounding stays that of a single weight."""


def block_masses(weights: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Sum of each run of `BLOCK` weights, float64 `[ceil(V / BLOCK)]`. `weights`: contiguous, `[V]`.

    einsum because its sum is vectorised and, unlike a product with ones, never starts BLAS threads.
    """
    blocks, rest = divmod(len(weights), BLOCK)
    masses = np.empty(blocks + (rest > 0))
    masses[:blocks] = np.einsum("ij->i", weights[: blocks * BLOCK].reshape(blocks, BLOCK))
    if rest:
        masses[blocks] = np.einsum("i->", weights[blocks * BLOCK :])
    return masses


def mass(weights: NDArray[np.floating[Any]]) -> float:
    """Sum of the weights `[V]`."""
    return float(block_masses(weights).sum()) if len(weights) > BLOCK else float(weights.sum())
