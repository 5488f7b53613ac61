"""The exact law of an in-graph acceptance, found by running the shipped graph on the uniforms it will be given.

Uniforms are multiples of 2^-24. `enumeration` finds the steps of one acceptance by bisection; here all drafts of a
pair are bisected at once, along the graph's batch axis, and on that grid the steps are exact.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime.accept import Accepted
from tests.support.enumeration import VOCABULARY, Pair, Prefix, sequence_law

GRID = 2**24
Ints = NDArray[np.int64]
Laws = NDArray[np.float32]
GraphRule = Callable[[Ints, Laws, Laws, Laws], tuple[Ints, Ints]]
"""drafted [B, gamma], p [B, gamma + 1, V], q [B, gamma, V], u [B, gamma + 1] -> ids [B, gamma + 1], count [B]."""

Outcome = tuple[Prefix, float, dict[Accepted, float]]


class Steps:
    """Where the outcomes of every draft of a pair change, as numbers of grid points."""

    def __init__(self, rule: GraphRule, drafts: Sequence[Prefix], p: Laws, q: Laws) -> None:
        self._rule, self._drafts, self._p, self._q = rule, np.array(drafts), p, q
        self.gamma = q.shape[1]
        self.sides = list(itertools.product((False, True), repeat=self.gamma))
        self.count_edges = self._count_edges()
        self.counts, self.draw_edges = self._draws()

    def outcome(self, draft: int, u: Ints) -> Accepted:
        """What the steps say of draft number `draft` for uniforms `u` / GRID."""
        side = self.sides.index(tuple((u[:-1] < self.count_edges[draft]).tolist()))
        token = int((u[-1] >= self.draw_edges[draft, side]).sum())
        return Accepted(int(self.counts[draft, side]), token)

    def law(self, draft: int) -> dict[Accepted, float]:
        """Probability of each outcome of draft number `draft`."""
        law: dict[Accepted, float] = {}
        for side, passes in enumerate(self.sides):
            edges = self.count_edges[draft] / GRID
            volume = float(np.prod(np.where(passes, edges, 1 - edges)))
            shares = np.diff(self.draw_edges[draft, side] / GRID, prepend=0.0, append=1.0)
            for token in range(VOCABULARY):
                outcome = Accepted(int(self.counts[draft, side]), token)
                law[outcome] = law.get(outcome, 0.0) + volume * float(shares[token])
        return law

    def run(self, rows: Ints, u: Ints) -> tuple[Ints, Ints]:
        """Accepted counts and last tokens of drafts number `rows` `[N]` under `u` `[N, gamma + 1]` / GRID."""
        ids, count = self._rule(self._drafts[rows], self._p[rows], self._q[rows], (u / GRID).astype(np.float32))
        return count - 1, np.take_along_axis(ids, count[:, None] - 1, axis=1)[:, 0]

    def _count_edges(self) -> Ints:
        """`[drafts, gamma]`: for how many u_i the count reaches i + 1, earlier tokens passing, later ones failing."""
        rows, index = (a.ravel() for a in np.indices((len(self._drafts), self.gamma)))
        u = np.zeros((len(rows), self.gamma + 1), np.int64)
        u[:, :-1] = np.where(np.arange(self.gamma) > index[:, None], GRID - 1, 0)

        def reaches(middle: Ints) -> NDArray[np.bool_]:
            u[np.arange(len(rows)), index] = middle
            return self.run(rows, u)[0] > index

        return _points_where(reaches, len(rows)).reshape(-1, self.gamma)

    def _draws(self) -> tuple[Ints, Ints]:
        """Counts `[drafts, sides]`, and up to which point of the last uniform tokens 0 ... V - 2 or less are drawn."""
        shape = (len(self._drafts), len(self.sides), VOCABULARY - 1)
        rows, side, token = (a.ravel() for a in np.indices(shape))
        passes = np.array(self.sides)[side]
        edges = self.count_edges[rows]
        u = np.zeros((len(rows), self.gamma + 1), np.int64)
        u[:, :-1] = np.where(passes, 0, GRID - 1)
        counts = self.run(rows, u)[0].reshape(shape)[..., 0]
        u[:, :-1] = np.where(passes, edges // 2, np.minimum((edges + GRID) // 2, GRID - 1))  # any point of the cell

        def at_most(middle: Ints) -> NDArray[np.bool_]:
            u[:, -1] = middle
            return self.run(rows, u)[1] <= token

        return counts, _points_where(at_most, len(rows)).reshape(shape)


def outcomes(rule: GraphRule, pairs: Sequence[Pair]) -> list[list[Outcome]]:
    """For each pair, every draft its drafter can make, its probability, and the law of what `rule` makes of it."""
    drafts = [(pair, drafted, mass) for pair in pairs for drafted, mass in sequence_law(pair.drafter, (), pair.gamma)]
    drafts = [draft for draft in drafts if draft[2] > 0]
    p, q = (
        np.stack([laws[i] for laws in (pair.laws(drafted) for pair, drafted, _ in drafts)]).astype(np.float32)
        for i in (0, 1)
    )
    steps = Steps(rule, [drafted for _, drafted, _ in drafts], p, q)
    found: dict[int, list[Outcome]] = {id(pair): [] for pair in pairs}
    for number, (pair, drafted, mass) in enumerate(drafts):
        found[id(pair)].append((drafted, mass, steps.law(number)))
    return list(found.values())


def _points_where(holds: Callable[[Ints], NDArray[np.bool_]], count: int) -> Ints:
    """How many leading points of the grid hold, `[count]`, each turning false at most once."""
    low, high = np.zeros(count, np.int64), np.full(count, GRID, np.int64)
    while (low < high).any():
        middle = np.minimum((low + high) // 2, GRID - 1)
        held = holds(middle)
        low, high = np.where(held, middle + 1, low), np.where(held, high, np.minimum(middle, high))
        low = np.minimum(low, high)
    return low
