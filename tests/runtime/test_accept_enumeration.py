"""The shipped acceptance code gives the verifier's joint law: enumerated, not sampled."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime.accept import Accepted, DraftLaws, Law, accept_block, accept_tokenwise, draw
from tests.support.enumeration import (
    ALMOST_ONE,
    VOCABULARY,
    Pair,
    Prefix,
    Rule,
    acceptance_law,
    joint_law,
    random_pair,
    sequence_law,
)

TOLERANCE = 1e-12
RULES = {"block": accept_block, "token": accept_tokenwise}
CASES = [*((1, seed) for seed in range(20)), *((2, seed) for seed in range(12)), *((3, seed) for seed in range(6))]
MANY_CASES = [(gamma, seed) for gamma in (1, 2, 3) for seed in range(100, 130)]


def outcomes(pair: Pair, rule: str) -> list[tuple[Prefix, float, dict[Accepted, float]]]:
    """Every draft the drafter can make, its probability, and the law of what the shipped rule makes of it."""
    found = []
    for drafted, mass in sequence_law(pair.drafter, (), pair.gamma):
        if mass > 0:
            p, q = pair.laws(drafted)
            found.append((drafted, mass, acceptance_law(bind(rule, drafted, p, q), pair.gamma)))
    return found


def bind(rule: str, drafted: Prefix, p: Law, q: DraftLaws) -> Rule:
    return lambda u: RULES[rule](drafted, p, q, u)


def error(pair: Pair, joint: dict[Prefix, float]) -> float:
    return max(abs(joint.get(tokens, 0) - mass) for tokens, mass in sequence_law(pair.verifier, (), pair.gamma + 1))


def expected_count(found: list[tuple[Prefix, float, dict[Accepted, float]]]) -> float:
    return sum(mass * share * accepted.count for _, mass, law in found for accepted, share in law.items())


def check_pair(gamma: int, seed: int) -> None:
    pair = random_pair(np.random.default_rng([gamma, seed]), gamma)
    block, token = outcomes(pair, "block"), outcomes(pair, "token")
    assert error(pair, joint_law(pair, block)) <= TOLERANCE
    assert error(pair, joint_law(pair, token)) <= TOLERANCE
    assert expected_count(block) >= expected_count(token) - TOLERANCE


def check_one_hot(gamma: int, seed: int, rule: str) -> None:
    """Every fixed draft must give the verifier's law by itself: a greedy drafter or an n-gram always makes one."""
    pair = random_pair(np.random.default_rng([gamma, seed]), gamma)
    for drafted in itertools.product(range(VOCABULARY), repeat=gamma):
        law = acceptance_law(bind(rule, drafted, pair.laws(drafted)[0], None), gamma)
        assert error(pair, joint_law(pair, [(drafted, 1.0, law)])) <= TOLERANCE


@pytest.mark.parametrize(("gamma", "seed"), CASES)
def test_joint_law_and_block_never_accepts_less(gamma: int, seed: int) -> None:
    check_pair(gamma, seed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("gamma", "seed"), CASES[::2])
def test_joint_law_of_one_hot_drafts(gamma: int, seed: int, rule: str) -> None:
    check_one_hot(gamma, seed, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_joint_law_of_a_trimmed_head(gamma: int, rule: str) -> None:
    """A drafter that only knows the tokens 0 and 2, its laws given over those two."""
    pair, ids = random_pair(np.random.default_rng([gamma, 7]), gamma), np.array([0, 2])
    trimmed = {prefix: (law[ids] + 0.01) / (law[ids] + 0.01).sum() for prefix, law in pair.drafter.items()}
    found = []
    for columns in itertools.product((0, 1), repeat=gamma):
        drafted = tuple(ids[list(columns)].tolist())
        q = np.stack([trimmed[drafted[:i]] for i in range(gamma)])
        mass = float(np.prod(q[range(gamma), columns]))
        law = acceptance_law(bind(rule, drafted, pair.laws(drafted)[0], (ids, q)), gamma)
        found.append((drafted, mass, law))
    assert error(pair, joint_law(pair, found)) <= TOLERANCE


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(5))
def test_joint_law_in_single_precision(seed: int, rule: str) -> None:
    pair = random_pair(np.random.default_rng([2, seed]), 2)
    found = []
    for drafted, mass in sequence_law(pair.drafter, (), 2):
        if mass > 0:
            p, q = (laws.astype(np.float32) for laws in pair.laws(drafted))
            found.append((drafted, mass, acceptance_law(bind(rule, drafted, p, q), 2)))
    assert error(pair, joint_law(pair, found)) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "seed"), MANY_CASES)
def test_joint_law_of_many_more_pairs(gamma: int, seed: int) -> None:
    check_pair(gamma, seed)
    for rule in RULES:
        check_one_hot(gamma, seed, rule)


def test_block_accepts_strictly_more_for_some_pair() -> None:
    pair = random_pair(np.random.default_rng([2, 0]), 2)
    assert expected_count(outcomes(pair, "block")) > expected_count(outcomes(pair, "token")) + 1e-3


def stop_at_the_first_failure(drafted: Prefix, p: Law, q: Law, u: NDArray[np.float64]) -> Accepted:
    """Block verification's own thresholds, read from the left."""
    gamma = len(drafted)
    count = 0
    for i in range(gamma):
        alone = np.array([ALMOST_ONE] * i + [u[i]] + [ALMOST_ONE] * (gamma - i))
        if accept_block(drafted, p, q, alone).count <= i:
            break
        count += 1
    return accept_block(drafted, p, q, np.array([0.0] * count + [ALMOST_ONE] * (gamma - count) + [u[-1]]))


def redraw_from_p(drafted: Prefix, p: Law, q: Law, u: NDArray[np.float64]) -> Accepted:
    """Token-wise acceptance that forgets the residual."""
    count = accept_tokenwise(drafted, p, q, u).count
    return Accepted(count, draw(p[count], u[-1]))


@pytest.mark.parametrize("wrong", [stop_at_the_first_failure, redraw_from_p])
def test_the_enumeration_sees_a_wrong_rule(monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., Accepted]) -> None:
    monkeypatch.setitem(RULES, "wrong", wrong)
    pair = random_pair(np.random.default_rng([2, 0]), 2)
    assert error(pair, joint_law(pair, outcomes(pair, "wrong"))) > 1e-2


@pytest.mark.parametrize("rule", RULES)
def test_the_cells_predict_the_code_everywhere(rule: str) -> None:
    """Frequencies at random uniforms agree with the cells: the step structure assumed by the enumeration is real."""
    pair = random_pair(np.random.default_rng([3, 0]), 3)
    rng = np.random.default_rng(5)
    drafted = (0, 2, 1)
    p, q = np.full((4, 3), 1 / 3), np.stack([pair.drafter[drafted[:i]] for i in range(3)]) * 0.9 + 0.1 / 3
    bound = bind(rule, drafted, p, q)
    law = acceptance_law(bound, 3)
    seen = [bound(rng.random(4)) for _ in range(4000)]
    for accepted, share in law.items():
        assert abs(seen.count(accepted) / 4000 - share) < 5 * np.sqrt(share * (1 - share) / 4000) + 1e-9
    assert set(seen) <= set(law)
