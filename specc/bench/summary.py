"""Trials summed up: of a category, of a turn, of all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from specc.bench.costs import Costs, best_fixed_gamma, predicted_speedup
from specc.bench.intervals import Ratio, paired_ratio, percentile
from specc.bench.samples import PLAIN, SPECULATIVE, Sample, Trial
from specc.speculation.measuring import acceptance
from specc_runtime.stats import RoundRecord


@dataclass(frozen=True)
class Speed:
    """How fast one side was. tokens_per_s: of all its tokens but each answer's first; None without any.

    first_token_s: median seconds to an answer's first token. round_p50_s, round_p99_s: seconds between outputs.
    prefilled: tokens fed to the verifier before the first output, an answer.
    """

    tokens_per_s: float | None
    first_token_s: float
    round_p50_s: float | None
    round_p99_s: float | None
    prefilled: float


@dataclass(frozen=True)
class Summary:
    """What a group of trials showed. speedup: decoding speed over plain's, pair by pair.

    acceptance: share of drafts accepted to position 1, 2, ... at least. tokens_per_round: of rounds that draft or not.
    gamma: mean tokens drafted a round. draft_share, host_share: of the time after the first token.
    predicted: the speed-up its rounds would have had at the measured costs. best_gamma, best_predicted: the fixed
    draft length that this acceptance suits best.
    """

    trials: int
    tokens: int
    speedup: Ratio | None
    speculative: Speed
    plain: Speed
    acceptance: tuple[float, ...]
    tokens_per_round: float | None
    gamma: float | None
    draft_share: float | None
    host_share: float | None
    predicted: float | None
    best_gamma: int | None
    best_predicted: float | None


def summarise(trials: Sequence[Trial], costs: Costs | None) -> Summary:
    """Sum up at least one trial."""
    samples = [trial.samples[SPECULATIVE] for trial in trials]
    rounds = [r for sample in samples for r in sample.steps]
    drafts = [r for r in rounds if r.drafted]
    best = best_fixed_gamma(rounds, costs) if costs is not None and drafts else (None, None)
    return Summary(
        trials=len(trials),
        tokens=sum(len(sample.ids) for sample in samples),
        speedup=speedup(trials, SPECULATIVE),
        speculative=speed(samples),
        plain=speed([trial.samples[PLAIN] for trial in trials]),
        acceptance=acceptance(drafts, max((r.drafted for r in drafts), default=0)),
        tokens_per_round=_mean(rounds, lambda r: r.emitted),
        gamma=_mean(rounds, lambda r: r.drafted),
        draft_share=_share(rounds, lambda r: r.draft_s + r.refill_s),
        host_share=_share(rounds, lambda r: r.host_s),
        predicted=predicted_speedup(rounds, costs) if costs is not None else None,
        best_gamma=best[0],
        best_predicted=best[1],
    )


def speedup(trials: Sequence[Trial], side: str, over: str = PLAIN) -> Ratio | None:
    """Seconds a token of `over` against those of `side`, pair by pair; answers of one token have none."""
    return paired_ratio(list(_pairs(trials, over, side)))


def speed(samples: Sequence[Sample]) -> Speed:
    """How fast these answers came."""
    decoded, rest_s = sum(len(s.ids) - 1 for s in samples), sum(s.rest_s for s in samples)
    latencies = [r.round_s + r.refill_s for s in samples for r in s.steps]
    return Speed(
        tokens_per_s=decoded / rest_s if decoded else None,
        first_token_s=median(s.first_s for s in samples),
        round_p50_s=percentile(latencies, 0.50),
        round_p99_s=percentile(latencies, 0.99),
        prefilled=sum(s.prefilled for s in samples) / len(samples),
    )


def _pairs(trials: Sequence[Trial], one: str, other: str) -> Iterator[tuple[float, float]]:
    for trial in trials:
        a, b = trial.samples[one].token_s, trial.samples[other].token_s
        if a and b:
            yield a, b


def _mean(rounds: Sequence[RoundRecord], value: Callable[[RoundRecord], int]) -> float | None:
    return sum(map(value, rounds)) / len(rounds) if rounds else None


def _share(rounds: Sequence[RoundRecord], seconds: Callable[[RoundRecord], float]) -> float | None:
    total = sum(r.round_s + r.refill_s for r in rounds)
    return sum(map(seconds, rounds)) / total if total else None
