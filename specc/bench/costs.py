"""What verifying and drafting cost on this machine, and what that promises."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from specc.speculation.measuring import acceptance
from specc.speculation.rounds import round_seconds, timed_rounds
from specc_runtime import Engine, SamplingParams
from specc_runtime.engines.base import Tokens
from specc_runtime.speculation import expected_tokens, round_costs
from specc_runtime.stats import RoundRecord


@dataclass(frozen=True)
class Costs:
    """Of rounds that draft 0, 1, 2, ... tokens; each list starts with the plain step.

    round_s, verify_s, draft_s: median seconds of the whole round, of verifying and of drafting. None where no round of
    that length was timed.
    """

    round_s: tuple[float, ...]
    verify_s: tuple[float | None, ...]
    draft_s: tuple[float | None, ...]

    @property
    def break_even(self) -> list[float]:
        """Tokens a round of each length must emit to be as fast as plain decoding."""
        return round_costs(self.round_s)

    @property
    def best_possible(self) -> float:
        """The speed-up if every drafted token were accepted, at the best of these lengths."""
        return max((drafted + 1) / cost for drafted, cost in enumerate(self.break_even))


def measure_costs(
    engine: Engine, drafter: str, prompts: Sequence[Tokens], longest: int, seconds: float, sampling: SamplingParams
) -> Costs | None:
    """Time rounds of each length in turn; None if the prompts leave no room for one."""
    records = timed_rounds(engine, drafter, prompts, longest, seconds, sampling)
    round_s = round_seconds(records, longest)
    if round_s is None:
        return None
    lengths = [[r for r in records if r.drafted == length and r.verify_s] for length in range(longest + 1)]
    return Costs(
        round_s=round_s,
        verify_s=tuple(median(r.verify_s for r in timed) if timed else None for timed in lengths),
        draft_s=tuple(median(r.draft_s for r in timed) if timed else None for timed in lengths),
    )


def predicted_speedup(rounds: Sequence[RoundRecord], costs: Costs) -> float | None:
    """Speed-up of these rounds over plain decoding, if each took what its length costs; None without rounds."""
    if not rounds:
        return None
    cost = costs.break_even
    return sum(r.emitted for r in rounds) / sum(cost[min(r.drafted, len(cost) - 1)] for r in rounds)


def best_fixed_gamma(rounds: Sequence[RoundRecord], costs: Costs) -> tuple[int, float]:
    """The fixed draft length that these rounds' acceptance would gain most with, and its predicted speed-up."""
    drafts = [r for r in rounds if r.drafted]
    longest = max((r.drafted for r in drafts), default=0)
    pairs = zip(expected_tokens(acceptance(drafts, longest)), costs.break_even, strict=False)
    rate = len(drafts) / max(1, len(rounds))
    gains = [(rate * tokens + 1 - rate) / (rate * cost + 1 - rate) for tokens, cost in pairs]
    best = max(range(len(gains)), key=gains.__getitem__)
    return best, gains[best]
