"""Rounds that never ran: a controller against a text of known acceptance on a machine of known costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specc_runtime.acceptance_estimate import AcceptanceEstimate
from specc_runtime.controller import AdaptiveGamma
from specc_runtime.cost_estimate import CostEstimate
from specc_runtime.stats import Stats

PLAIN_S = 0.0085


@dataclass(frozen=True)
class Machine:
    """costs: of rounds that draft 0, 1, ... tokens, in plain steps. refill: of feeding the drafter a known token."""

    costs: Sequence[float]
    refill: float = 0.0

    def best(self, likely: float) -> tuple[float, int]:
        """The highest speed-up at this acceptance of every position, and its gamma."""
        tokens = [sum(likely**i for i in range(gamma + 1)) for gamma in range(len(self.costs))]
        return max((t / cost, gamma) for gamma, (t, cost) in enumerate(zip(tokens, self.costs, strict=True)))


@dataclass(frozen=True)
class Run:
    """gammas: what each round drafted. took: plain steps that the whole text took."""

    gammas: list[int]
    tokens: int
    took: float

    @property
    def speedup(self) -> float:
        return self.tokens / self.took


def controller(
    machine: Machine, prior: Sequence[float], tokens: int, *, prompt: int = 0, guessed: Sequence[float] | None = None
) -> AdaptiveGamma:
    """What chooses for `tokens` tokens. guessed: costs it starts with; None: the machine's own, and its speed."""
    costs = CostEstimate(machine.costs, PLAIN_S) if guessed is None else CostEstimate(guessed)
    acceptance = AcceptanceEstimate(prior, len(machine.costs) - 1)
    return AdaptiveGamma(acceptance, costs, room=tokens, missed=prompt, refill_s=machine.refill * PLAIN_S)


def simulate(
    chooser: AdaptiveGamma,
    machine: Machine,
    likely: Callable[[int], float],
    tokens: int,
    *,
    seed: int = 0,
    noise: float = 0.05,
    prompt: int = 0,
) -> Run:
    """likely: acceptance of a drafted token by how many tokens there are. noise: of the rounds' times."""
    random, stats = np.random.default_rng(seed), Stats()
    emitted, took, missed, gammas = 0, 0.0, prompt, []
    while emitted < tokens:
        gamma, accepted = min(chooser.choose(stats), tokens - emitted - 1), 0
        while accepted < gamma and random.random() < likely(emitted):
            accepted += 1
        refilled = missed if gamma else 0
        seconds = machine.costs[gamma] * PLAIN_S * (1 + noise * abs(random.standard_normal()))
        stats.record_round(gamma, accepted, accepted + 1)
        assert stats.last_round is not None
        stats.last_round.verify_s = seconds
        stats.last_round.refilled, stats.last_round.refill_s = refilled, refilled * machine.refill * PLAIN_S
        missed = 1 if gamma else missed + 1
        emitted += accepted + 1
        took += machine.costs[gamma] + refilled * machine.refill
        gammas.append(gamma)
    return Run(gammas, emitted, took)
