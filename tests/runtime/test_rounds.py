"""The joint law over consecutive rounds: what a test of a single round can't see is a uniform used twice."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from specc_runtime.accept import Accepted, accept_block, accept_tokenwise, draw
from specc_runtime.acceptance_estimate import AcceptanceEstimate
from specc_runtime.controller import AdaptiveGamma
from specc_runtime.cost_estimate import CostEstimate
from specc_runtime.rng import Purpose, RoundUniforms, round_uniforms, uniforms
from specc_runtime.stats import Stats

ROUNDS = 3
TOKENS = 5
PROMPT = (0,)
Keying = Callable[[int, int, int], RoundUniforms]
Controller = Callable[[Sequence[int]], int]
Rule = Callable[..., Accepted]

# Next-token laws by the previous token: far apart, so rejections are frequent, and with a zero each.
VERIFIER = np.array([[0.60, 0.30, 0.10], [0.15, 0.00, 0.85], [0.45, 0.25, 0.30]])
DRAFTER = np.array([[0.20, 0.25, 0.55], [0.40, 0.30, 0.30], [0.00, 0.65, 0.35]])


def by_round(seed: int, committed: int, gamma: int) -> RoundUniforms:
    """The shipped keying."""
    return round_uniforms(seed, 0, committed, gamma)


def by_position(seed: int, committed: int, gamma: int) -> RoundUniforms:
    """The tempting wrong one: a number per purpose and absolute position, drawn again after a rejection."""
    end = committed + gamma
    draft = uniforms(seed, 0, 0, Purpose.DRAFT, end)[committed:]
    accept = uniforms(seed, 0, 0, Purpose.ACCEPT, end)[committed:]
    emit = uniforms(seed, 0, 0, Purpose.EMIT, end + 1)[end:]
    return RoundUniforms(draft, np.append(accept, emit))


def steady(rejected: Sequence[int]) -> int:
    return 2


def reading_the_tail(rejected: Sequence[int]) -> int:
    """A controller that chooses the next gamma from the tokens that were just rejected."""
    return 3 if len(rejected) == 0 or rejected[-1] == 1 else 1


class Adaptive:
    """The shipped controller, at costs where what one round accepted decides what the next one drafts."""

    def __init__(self) -> None:
        costs = CostEstimate([1, 1.25, 1.45, 1.55], plain_s=1.0)
        self._chooser = AdaptiveGamma(AcceptanceEstimate([0.5, 0.27, 0.1], 3), costs, room=100, missed=0)
        self._stats = Stats()
        self._gamma = 2

    def __call__(self, rejected: Sequence[int]) -> int:
        accepted = self._gamma - len(rejected)
        self._stats.record_round(self._gamma, accepted, accepted + 1)
        self._gamma = self._chooser.choose(self._stats)
        return self._gamma


def generate(seed: int, keying: Keying, controller: Callable[[], Controller], accept: Rule) -> tuple[int, ...]:
    """The first tokens of three rounds; the verifier alone completes them if three rounds gave fewer."""
    tokens, gamma, next_gamma = list(PROMPT), 2, controller()
    for _ in range(ROUNDS):
        committed, drafted = len(tokens), []
        u = keying(seed, committed, gamma)
        for i in range(gamma):
            drafted.append(draw(DRAFTER[(tokens + drafted)[-1]], u.draft[i]))
        before = [tokens[-1], *drafted]
        count, token = accept(drafted, VERIFIER[before], DRAFTER[before[:-1]], u.accept)
        tokens += [*drafted[:count], token]
        gamma = next_gamma(drafted[count:])
    while len(tokens) < len(PROMPT) + TOKENS:
        tokens.append(draw(VERIFIER[tokens[-1]], keying(seed, len(tokens), 0).accept[0]))
    return tuple(tokens[len(PROMPT) : len(PROMPT) + TOKENS])


def exact_law() -> dict[tuple[int, ...], float]:
    law = {PROMPT: 1.0}
    for _ in range(TOKENS):
        law = {(*seq, token): mass * VERIFIER[seq[-1], token] for seq, mass in law.items() for token in range(3)}
    return {seq[len(PROMPT) :]: mass for seq, mass in law.items()}


def p_value(sequences: Sequence[tuple[int, ...]]) -> float:
    """Chi-square of the joint counts; cells expected fewer than five times are one cell."""
    counts, law = Counter(sequences), exact_law()
    assert all(law[seq] > 0 for seq in counts), "a token off the verifier's support"
    cells = [(counts[seq], mass * len(sequences)) for seq, mass in law.items() if mass > 0]
    common = [cell for cell in cells if cell[1] >= 5]
    rare = [cell for cell in cells if cell[1] < 5]
    observed, expected = np.array([*common, *([np.sum(rare, axis=0)] if rare else [])]).T
    return float(chisquare(observed, expected).pvalue)


def sample(count: int, keying: Keying, controller: Callable[[], Controller], accept: Rule) -> float:
    return p_value([generate(seed, keying, controller, accept) for seed in range(count)])


CONTROLLERS = pytest.mark.parametrize(
    "controller", [lambda: steady, lambda: reading_the_tail, Adaptive], ids=["steady", "reading the tail", "adaptive"]
)
RULES = pytest.mark.parametrize("accept", [accept_block, accept_tokenwise])


@CONTROLLERS
@RULES
def test_three_rounds_have_the_verifiers_joint_law(controller: Callable[[], Controller], accept: Rule) -> None:
    assert sample(5000, by_round, controller, accept) > 1e-3


@pytest.mark.slow
@CONTROLLERS
@RULES
def test_three_rounds_of_many_seeds(controller: Callable[[], Controller], accept: Rule) -> None:
    assert sample(60_000, by_round, controller, accept) > 1e-3


@CONTROLLERS
def test_the_same_test_fails_a_key_by_position(controller: Callable[[], Controller]) -> None:
    assert sample(5000, by_position, controller, accept_block) < 1e-6


def test_the_adaptive_controller_is_worth_testing() -> None:
    assert {Adaptive()(rejected) for rejected in ([], [0], [0, 1])} == {1, 2, 3}


def test_the_same_seed_gives_the_same_tokens() -> None:
    assert generate(7, by_round, Adaptive, accept_block) == generate(7, by_round, Adaptive, accept_block)
    assert len({generate(seed, by_round, Adaptive, accept_block) for seed in range(40)}) > 10


def test_uniforms_of_consecutive_rounds_never_meet() -> None:
    seen: list[NDArray[np.float64]] = []
    for committed in range(1, 30):
        seen += round_uniforms(3, 0, committed, 4)
    values = np.concatenate(seen)
    assert len(set(values)) == len(values)
