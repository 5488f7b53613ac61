"""Acceptance: how drafted tokens become emitted ones without changing the verifier's law.

p: the verifier's laws `[gamma + 1, V]`, row i after i drafted tokens, already warped by the request's options.
q: the laws the drafter really sampled from, in one of three forms:
    None                      one-hot at the drafted token: a greedy drafter, an n-gram
    array [gamma, V]          dense; fewer columns than p's mean zeros there
    (ids [Vd], array [gamma, Vd])   a trimmed head: ids are distinct full token ids, ascending, column j is ids[j]
u: uniforms in [0, 1), float64 `[gamma + 1]`: one acceptance each, the last for the final draw.
drafted: gamma token ids, each drawn from its q (so of positive mass there); gamma may be 0.

Laws are float32 or float64 and C-contiguous; `scratch`, `[V]` of p's dtype, spares an allocation per call.

A token accepted or drawn here is final: keep all of them, or the law is no longer the verifier's.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specc_runtime.mass import BLOCK, block_masses, mass

Law: TypeAlias = NDArray[np.floating[Any]]
DraftLaws: TypeAlias = Law | tuple[NDArray[np.integer[Any]], Law] | None
Ids: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]


class Accepted(NamedTuple):
    """What a round emits: the first `count` drafted tokens, then `token`."""

    count: int  # type: ignore[assignment]  # tuple's own count() has no use here
    token: int


def draw(weights: Law, u: float) -> int:
    """Draw an index with probability proportional to `weights` `[V]` by inverting their running sum at `u` in [0, 1).

    Never an index of zero weight. Blocks first, then inside one block, summed in float64.
    """
    masses = np.cumsum(block_masses(weights))
    target = u * masses[-1]
    block = _first_above(masses, target)
    before = masses[block - 1] if block else 0.0
    inside = np.cumsum(weights[block * BLOCK : (block + 1) * BLOCK], dtype=np.float64)
    return block * BLOCK + _first_above(inside, target - before)


def accept_greedy(drafted: Ids, argmax_ids: Ids) -> Accepted:
    """Temperature 0: accept while the drafted token is the verifier's likeliest. `argmax_ids`: gamma + 1 of them."""
    count = 0
    while count < len(drafted) and drafted[count] == argmax_ids[count]:
        count += 1
    return Accepted(count, int(argmax_ids[count]))


def accept_tokenwise(
    drafted: Ids, p: Law, q: DraftLaws, u: NDArray[np.float64], *, scratch: Law | None = None
) -> Accepted:
    """Accept x_i while u_i < p_i(x_i) / q_i(x_i); at the first failure draw from norm(max(0, p_i - q_i)).

    Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.
    """
    gamma = len(drafted)
    for i in range(gamma):
        if u[i] >= float(p[i, drafted[i]]) / _draft_mass(q, i, drafted[i]):
            residual = _residual(1.0, p[i], q, i, drafted[i], scratch)
            return Accepted(i, _draw_residual(residual, p[i], u[gamma]))
    return Accepted(gamma, draw(p[gamma], u[gamma]))


def accept_block(drafted: Ids, p: Law, q: DraftLaws, u: NDArray[np.float64], *, scratch: Law | None = None) -> Accepted:
    """Accept the longest prefix that passes, judging the block as a whole (Sun et al. 2024, algorithm 2).

    P_0 = 1, P_i = min(1, P_{i-1} p_i(x_i) / q_i(x_i)): how much of the prefix's draft mass the verifier keeps.
    A prefix of i < gamma passes if u_i < h_i = Z_i / (Z_i + 1 - P_i), Z_i = sum of max(0, P_i p_{i+1} - q_{i+1});
    the whole block if u_gamma < P_gamma; the empty prefix always. Then one token from max(0, P_i p_{i+1} - q_{i+1})
    normalised, or from p_{gamma+1} after the whole block. A failure at one length says nothing about longer ones: the
    search goes from the longest down. Two cases need no sum: P_i = 1 makes h_i = 1, and h_i <= P_i because Z_i <= P_i.
    """
    gamma = len(drafted)
    kept = [1.0]
    for i in range(gamma):
        kept.append(min(1.0, kept[i] * float(p[i, drafted[i]]) / _draft_mass(q, i, drafted[i])))
    if gamma == 0 or u[gamma - 1] < kept[gamma]:
        return Accepted(gamma, draw(p[gamma], u[gamma]))
    for count in range(gamma - 1, 0, -1):
        if u[count - 1] >= kept[count]:
            continue
        residual = _residual(kept[count], p[count], q, count, drafted[count], scratch)
        if kept[count] == 1.0 or u[count - 1] < (z := mass(residual)) / (z + 1.0 - kept[count]):
            return Accepted(count, _draw_residual(residual, p[count], u[gamma]))
    residual = _residual(1.0, p[0], q, 0, drafted[0], scratch)
    return Accepted(0, _draw_residual(residual, p[0], u[gamma]))


def _first_above(cumulative: NDArray[np.float64], target: float) -> int:
    """First index whose running sum exceeds `target`; the last index of positive weight if rounding leaves none."""
    return int(min(cumulative.searchsorted(target, "right"), cumulative.searchsorted(cumulative[-1], "left")))


def _draft_mass(q: DraftLaws, i: int, token: int) -> float:
    """q_i(token)."""
    if q is None:
        return 1.0
    if isinstance(q, tuple):
        ids, laws = q
        return float(laws[i, ids.searchsorted(token)])
    return float(q[i, token])


def _residual(kept: float, p: Law, q: DraftLaws, i: int, token: int, scratch: Law | None) -> Law:
    """max(0, kept * p - q_i), `[V]`, in `scratch` where given. max(a, b) - b is max(0, a - b) in two fast passes."""
    residual = np.multiply(p, kept, out=scratch)
    if q is None:
        residual[token] = 0.0
    elif isinstance(q, tuple):
        ids, laws = q
        residual[ids] = np.maximum(residual[ids], laws[i]) - laws[i]
    else:
        covered = residual[: q.shape[1]]
        np.maximum(covered, q[i], out=covered)
        np.subtract(covered, q[i], out=covered)
    return residual


def _draw_residual(residual: Law, p: Law, u: float) -> int:
    """Draw from the residual; from p where rounding has left nothing of it."""
    return draw(residual if residual.any() else p, u)
