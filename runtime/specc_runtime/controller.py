"""How many tokens to draft in the next round.

A controller decides before the round drafts anything and from what earlier rounds did, so whatever it decides, tokens
keep the verifier's law: the uniforms of a round are never used in another.
"""

from typing import Protocol

from specc_runtime.acceptance_estimate import AcceptanceEstimate
from specc_runtime.cost_estimate import CostEstimate
from specc_runtime.stats import RoundRecord, Stats

ON_GAIN = 1.02  # predicted speed-up at which drafting begins
SWITCH_GAIN = 1.01  # how much better another gamma must look than the one in use
PLAIN_EVERY = 32  # drafting rounds after which a plain step is taken, to know what one costs now
PROBE_SHARE = 0.01  # of the time plain decoding takes, what may be spent on finding out whether drafting pays again
FIRST_PROBE = 0.3  # plain steps that may be lost on trying a drafter that is expected not to pay
STAKE = 1.5  # plain steps that may be lost before drafting, expected to pay, has shown that it does
MOST_STAKE = 6.0  # plain steps of earlier gains that may be lost again before drafting is switched off
REFILL_RETURN = 2.0  # predicted gain, for each plain step of feeding the drafter what it has missed


class Controller(Protocol):
    """Chooses gamma before a round drafts anything, from what earlier rounds did."""

    def choose(self, stats: Stats) -> int:
        """Tokens to draft, 0 for a plain step. The loop drafts fewer where the context or the request ends."""
        ...


class FixedGamma:
    """The same gamma in every round."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma

    def choose(self, stats: Stats) -> int:
        return self.gamma


class AdaptiveGamma:
    """The gamma whose rounds emit most tokens a second, by what acceptance and costs were lately; 0 if none gains.

    It can't lose much: a balance in plain steps pays for every round that emits less than plain decoding would have in
    its time, and a round is only drafted if the balance covers its total failure. Gains raise it to MOST_STAKE at most.
    Once drafting looks like a loss the balance is emptied, and only PROBE_SHARE of each emitted token flows into it:
    that pays for rounds of one drafted token, which show when drafting pays again.

    acceptance: learnt anew by each request; one that outlived a request could choose by uniforms it will use again.
    costs: may outlive requests. room: most tokens the request emits. missed: known tokens the drafter was not fed yet.
    refill_s: expected seconds to feed it one.
    """

    def __init__(
        self, acceptance: AcceptanceEstimate, costs: CostEstimate, *, room: int, missed: int, refill_s: float = 0.0
    ) -> None:
        self._acceptance = acceptance
        self._costs = costs
        self._room = room
        self._missed = missed
        self._refill_s = refill_s
        self._last: RoundRecord | None = None
        self._on = False
        self._gamma = 0
        self._drafting_rounds = 0  # since the last plain step
        self._balance = STAKE if max(self._gains()) >= ON_GAIN else FIRST_PROBE

    def choose(self, stats: Stats) -> int:
        last = stats.last_round
        if last is not None and last is not self._last:
            self._last = last
            self._learn(last)
        if not self._costs.plain_s:
            return 0  # nothing is known of this machine: a plain step first
        gains = self._gains()
        best = gains.index(max(gains))
        self._switch(gains[best])
        return self._drafting(gains, best) if self._on else self._probing()

    def _gains(self) -> list[float]:
        """Predicted speed-ups over plain decoding, by gamma."""
        return [t / c for t, c in zip(self._acceptance.expected_tokens, self._costs.costs, strict=True)]

    def _learn(self, last: RoundRecord) -> None:
        if last.verify_s and not last.prefilled:
            self._costs.record(last.drafted, last.round_s)
        self._room -= last.emitted
        self._missed += last.emitted
        self._balance += PROBE_SHARE * last.emitted
        self._drafting_rounds = self._drafting_rounds + 1 if last.drafted else 0
        if last.drafted:
            self._acceptance.record(last.drafted, last.accepted)
            refill = self._refill_cost() if not self._on else 0.0  # switching on has weighed it already
            self._balance += last.emitted - self._costs.costs[last.drafted] - refill
            self._missed = 1
        if last.refilled:
            self._refill_s = last.refill_s / last.refilled
        self._balance = min(self._balance, MOST_STAKE)

    def _switch(self, gain: float) -> None:
        """On when drafting is predicted to pay for what the drafter has missed too, off when it no longer pays."""
        if self._on and gain <= 1:
            self._on = False
            self._balance = min(self._balance, 0.0)
        elif not self._on and gain >= ON_GAIN:
            self._on = self._room * (1 - 1 / gain) >= REFILL_RETURN * self._refill_cost()

    def _drafting(self, gains: list[float], best: int) -> int:
        if self._drafting_rounds >= PLAIN_EVERY:
            return 0
        if gains[best] >= SWITCH_GAIN * gains[self._gamma]:
            self._gamma = best
        costs, gamma = self._costs.costs, self._gamma
        while gamma and costs[gamma] - 1 > self._balance:
            gamma -= 1
        return gamma

    def _probing(self) -> int:
        return int(self._balance >= self._costs.costs[1] - 1 + self._refill_cost())

    def _refill_cost(self) -> float:
        """Plain steps it takes to feed the drafter what it has missed."""
        plain_s = self._costs.plain_s
        return self._missed * self._refill_s / plain_s if plain_s else 0.0
