"""Each drafter of a written bundle measured: what its rounds cost, and how much of what it drafts is accepted."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from specc.speculation.rounds import round_seconds, rounds_of, timed_rounds
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Tokens
from specc_runtime.manifest import Manifest, Speculation
from specc_runtime.speculation import best_gamma, predicted_speedups
from specc_runtime.stats import RoundRecord

LEAST_GAIN = 1.02  # predicted speed-up below which plain decoding stays the default
NEW_TOKENS = 64  # of each prompt's answer
COSTS_S = 3.0  # seconds spent timing rounds, a drafter
ACCEPTANCE_S = 4.0  # seconds spent decoding answers, a drafter


def measured_speculation(bundle: Bundle, prompts: Sequence[Tokens]) -> Manifest:
    """The bundle's manifest with every drafter measured, and the gamma that pays best as the default, 0 if none does.

    A drafter that can't be measured (too short a context) stays unmeasured, and the default as it was.
    """
    manifest = bundle.manifest
    engine = Engine(bundle, load_programs(bundle))
    measured = {key: measure_drafter(engine, key, prompts) for key in manifest.drafters}
    drafters = {key: replace(info, measured=measured[key]) for key, info in manifest.drafters.items()}
    return replace(manifest, drafters=drafters, gamma=chosen_gamma(manifest, next(iter(measured.values()), None)))


def chosen_gamma(manifest: Manifest, measured: Speculation | None) -> int:
    """The default gamma by what was measured of the default drafter."""
    if measured is None:
        return manifest.gamma
    return best_gamma(predicted_speedups(measured), manifest.gammas, LEAST_GAIN)


def measure_drafter(engine: Engine, key: str, prompts: Sequence[Tokens]) -> Speculation | None:
    """Costs of drafter `key` up to the bundle's longest gamma, and its acceptance on greedy answers to `prompts`."""
    longest = max(engine.manifest.gammas)
    round_s = round_seconds(timed_rounds(engine, key, prompts, longest, COSTS_S), longest)
    records = _answers(engine, key, prompts, longest)
    if round_s is None or not any(r.verify_s for r in records):
        return None
    steps = [r for r in records if r.verify_s]
    drafts = [r for r in steps if r.drafted]
    refilled = sum(r.refilled for r in records)
    return Speculation(
        round_s=round_s,
        refill_s=sum(r.refill_s for r in records) / max(1, refilled),
        acceptance=acceptance(drafts, longest),
        draft_rate=len(drafts) / len(steps),
        tokens=sum(r.emitted for r in records),
    )


def acceptance(drafts: Sequence[RoundRecord], longest: int) -> tuple[float, ...]:
    """Probability that at least 1, 2, ... `longest` drafted tokens are accepted.

    A product over positions of how often each was accepted once it was reached: so drafts of every length count as far
    as they went (Kaplan and Meier 1958). 0 behind the last position that any draft reached.
    """
    shares, reached = [], 1.0
    for position in range(longest):
        outcomes = [r.accepted > position for r in drafts if min(r.drafted - 1, r.accepted) >= position]
        reached *= sum(outcomes) / len(outcomes) if outcomes else 0.0
        shares.append(reached)
    return tuple(shares)


def _answers(engine: Engine, key: str, prompts: Sequence[Tokens], longest: int) -> list[RoundRecord]:
    params, deadline = SamplingParams(max_new_tokens=NEW_TOKENS), perf_counter() + ACCEPTANCE_S
    records: list[RoundRecord] = []
    for prompt in prompts:
        records += rounds_of(engine.generate(prompt, params, drafter=key, gamma=longest), deadline)
        if perf_counter() > deadline:
            break
    return records
