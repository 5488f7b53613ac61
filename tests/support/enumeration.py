"""The exact law of an acceptance rule, found by running it: no formula of any rule is repeated here.

An acceptance is a step function of its uniforms. `acceptance_law` finds the steps by bisection, runs the code once in
each cell, and weighs the result with the cell's volume, so what is integrated is the code as shipped.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specc_runtime.accept import Accepted

VOCABULARY = 3
Prefix = tuple[int, ...]
Tree = Mapping[Prefix, NDArray[np.float64]]
Rule = Callable[[NDArray[np.float64]], Accepted]
ALMOST_ONE = float(np.nextafter(1.0, 0.0))
BISECTIONS = 50


@dataclass(frozen=True)
class Pair:
    """A verifier and a drafter whose laws depend on the whole prefix."""

    verifier: Tree
    drafter: Tree

    @property
    def gamma(self) -> int:
        return max(map(len, self.verifier))

    def laws(self, drafted: Prefix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """p `[gamma + 1, 3]` and q `[gamma, 3]` along the drafted tokens."""
        p = np.stack([self.verifier[drafted[:i]] for i in range(self.gamma + 1)])
        return p, np.stack([self.drafter[drafted[:i]] for i in range(self.gamma)])


def prefixes(longest: int) -> Iterator[Prefix]:
    """Every prefix of at most `longest` tokens."""
    for length in range(longest + 1):
        yield from itertools.product(range(VOCABULARY), repeat=length)


def random_pair(rng: np.random.Generator, gamma: int) -> Pair:
    """Random laws, many with zeros, some equal at a prefix: where acceptance might divide by or draw from nothing."""
    verifier, drafter = {}, {}
    for prefix in prefixes(gamma):
        verifier[prefix], drafter[prefix] = _random_law(rng), _random_law(rng)
        if rng.random() < 0.2:
            drafter[prefix] = verifier[prefix].copy()
    return Pair(verifier, drafter)


def _random_law(rng: np.random.Generator) -> NDArray[np.float64]:
    law = rng.dirichlet([1.0] * VOCABULARY) * (rng.random(VOCABULARY) < 0.8)
    return law / law.sum() if law.sum() else np.eye(VOCABULARY)[rng.integers(VOCABULARY)]


def sequence_law(tree: Tree, start: Prefix, end: int) -> Iterator[tuple[Prefix, float]]:
    """Every continuation of `start` to `end` tokens, with its probability under `tree`."""
    if len(start) == end:
        yield start, 1.0
        return
    for token, mass in enumerate(tree[start]):
        for sequence, rest in sequence_law(tree, (*start, token), end):
            yield sequence, float(mass) * rest


def acceptance_law(rule: Rule, gamma: int) -> dict[Accepted, float]:
    """Probability of each outcome of `rule(u)` over independent uniforms u `[gamma + 1]`."""
    edges = [_count_edge(rule, gamma, i) for i in range(gamma)]
    draws: dict[int, list[tuple[float, float]]] = {}
    law: dict[Accepted, float] = defaultdict(float)
    for sides in itertools.product((0, 1), repeat=gamma):
        volume = float(np.prod([edge if side == 0 else 1 - edge for edge, side in zip(edges, sides, strict=True)]))
        if volume == 0:
            continue
        u = np.array(
            [edge / 2 if side == 0 else (1 + edge) / 2 for edge, side in zip(edges, sides, strict=True)] + [0.5]
        )
        count = rule(u).count
        cells = draws.setdefault(count, _draw_cells(rule, u))
        for point, width in cells:
            u[gamma] = point
            law[rule(u)] += volume * width
    return law


def joint_law(pair: Pair, outcomes: Iterable[tuple[Prefix, float, Mapping[Accepted, float]]]) -> dict[Prefix, float]:
    """Law of the first gamma + 1 tokens: those a round emits, completed by the verifier one at a time.

    outcomes: drafted tokens, their probability, and the law of their acceptance.
    """
    joint: dict[Prefix, float] = defaultdict(float)
    for drafted, mass, law in outcomes:
        for (count, token), share in law.items():
            for sequence, rest in sequence_law(pair.verifier, (*drafted[:count], token), pair.gamma + 1):
                joint[sequence] += mass * share * rest
    return joint


def _count_edge(rule: Rule, gamma: int, i: int) -> float:
    """Where, as u_i grows, the count stops reaching i + 1, with earlier tokens made to pass and later ones to fail."""
    u = np.array([0.0] * i + [0.0] + [ALMOST_ONE] * (gamma - i - 1) + [0.5])

    def passes(value: float) -> bool:
        u[i] = value
        return rule(u).count > i

    return _bisect(passes)


def _draw_cells(rule: Rule, u: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Cells of the final draw's uniform: a point inside each, and its width."""
    trial = u.copy()

    def at_most(token: int, value: float) -> bool:
        trial[-1] = value
        return rule(trial).token <= token

    edges = [0.0, *(_bisect(lambda value, token=token: at_most(token, value)) for token in range(VOCABULARY - 1)), 1.0]
    return [((low + high) / 2, high - low) for low, high in itertools.pairwise(edges) if high > low]


def _bisect(holds: Callable[[float], bool]) -> float:
    """Length of the leading part of [0, 1) where `holds`, which turns false at most once."""
    if not holds(0.0):
        return 0.0
    if holds(ALMOST_ONE):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2
