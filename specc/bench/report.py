"""What a benchmark found, and as a JSON document (docs/bench.md describes it)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from specc.bench.costs import Costs
from specc.bench.identity import Identity
from specc.bench.intervals import Ratio
from specc.bench.samples import Trial
from specc.bench.summary import Speed, Summary

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class PeerReport:
    """One mode of another engine. speculative, plain: how much faster specc's two sides were, pair by pair.

    identity: of its answers with specc's plain ones; another precision may take another way. peak_bytes: of its
    process, which its modes share.
    """

    name: str
    version: str
    precision: str
    mode: str
    speed: Speed
    speculative: Ratio | None
    plain: Ratio | None
    identity: Identity
    peak_bytes: int


@dataclass(frozen=True)
class BenchReport:
    """One benchmark.

    bundle, settings, machine: what ran, how, and on what, for the reader. skipped: questions too long for the context.
    costs: None where the prompts left no room to time rounds.
    """

    bundle: Mapping[str, Any]
    settings: Mapping[str, Any]
    machine: Mapping[str, Any]
    costs: Costs | None
    overall: Summary
    categories: Mapping[str, Summary]
    turns: Mapping[int, Summary]
    identity: Identity
    peak_bytes: int
    peers: tuple[PeerReport, ...]
    skipped: tuple[str, ...]
    trials: tuple[Trial, ...]


def document(report: BenchReport, verdict: tuple[str, ...]) -> dict[str, Any]:
    """The report as plain JSON values: seconds, bytes and ratios; ids and single rounds are left out."""
    costs = report.costs
    return {
        "schema": SCHEMA_VERSION,
        "verdict": list(verdict),
        "bundle": dict(report.bundle),
        "settings": dict(report.settings),
        "machine": dict(report.machine),
        "costs": None
        if costs is None
        else {**asdict(costs), "break_even": costs.break_even, "best_possible": costs.best_possible},
        "overall": asdict(report.overall),
        "categories": {name: asdict(summary) for name, summary in report.categories.items()},
        "turns": {str(turn): asdict(summary) for turn, summary in report.turns.items()},
        "identity": asdict(report.identity),
        "peak_bytes": report.peak_bytes,
        "peers": [asdict(peer) for peer in report.peers],
        "skipped": list(report.skipped),
        "trials": [_trial(trial) for trial in report.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    sides = {
        side: {
            "tokens": len(sample.ids),
            "first_s": sample.first_s,
            "rest_s": sample.rest_s,
            "rounds": len(sample.steps),
            "prefilled": sample.prefilled,
            "refilled": sample.refilled,
        }
        for side, sample in trial.samples.items()
    }
    return {
        "question": trial.question,
        "category": trial.category,
        "turn": trial.turn,
        "prompt_tokens": len(trial.prompt),
        "sides": sides,
    }
