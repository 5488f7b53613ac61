"""Benchmarks that never ran: trials of chosen rounds and times, and the report they make."""

from collections.abc import Sequence

from specc.bench.costs import Costs
from specc.bench.identity import identity
from specc.bench.report import BenchReport, PeerReport
from specc.bench.samples import PLAIN, SPECULATIVE, Sample, Trial
from specc.bench.summary import speed, speedup, summarise
from specc_runtime.stats import RoundRecord

COSTS = Costs(
    round_s=(0.010, 0.012, 0.014), verify_s=(0.0098, 0.011, 0.012), draft_s=(0.0, 0.0008, 0.0016)
)  # fmt: skip
PEER = "engine, plain"


def speculative_sample(accepted: Sequence[int], *, gamma: int = 2, first_s: float = 0.05, slow: float = 1.0) -> Sample:
    """An answer of one round a number: the prompt's first, then rounds that accepted so many of `gamma`."""
    prefill = RoundRecord(0, 0, 1, prefill_s=first_s, prefilled=20)
    step_s = COSTS.round_s[gamma] * slow
    rounds = [
        RoundRecord(gamma, count, count + 1, draft_s=0.1 * step_s, verify_s=0.88 * step_s, host_s=0.02 * step_s)
        for count in accepted
    ]
    tokens = 1 + sum(r.emitted for r in rounds)
    rest_s = sum(r.round_s for r in rounds)
    return Sample(tuple(range(tokens)), 20, first_s, rest_s, (prefill, *rounds), prefilled=20, refilled=20)


def plain_sample(tokens: int, *, step_s: float = COSTS.round_s[0], first_s: float = 0.05) -> Sample:
    """An answer of single steps."""
    prefill = RoundRecord(0, 0, 1, prefill_s=first_s, prefilled=20)
    rounds = [RoundRecord(0, 0, 1, verify_s=step_s)] * (tokens - 1)
    return Sample(tuple(range(tokens)), 20, first_s, step_s * (tokens - 1), (prefill, *rounds), prefilled=20)


def trial(question: str, category: str, accepted: Sequence[int], *, turn: int = 1, slow: float = 1.0) -> Trial:
    """Both sides and a peer give the same tokens; `slow` is the speculative side's machine."""
    ours = speculative_sample(accepted, slow=slow)
    plain = plain_sample(len(ours.ids))
    peer = Sample(ours.ids, 20, 0.06, 1.5 * plain.rest_s)
    return Trial(question, category, turn, tuple(range(20)), {SPECULATIVE: ours, PLAIN: plain, PEER: peer})


def some_trials() -> list[Trial]:
    """Two categories, one of which gains and one loses; the second has a second turn."""
    gaining = [trial(f"g{i}", "summaries & <lists>", [2, 2, 1, 2 - i % 2], slow=1 + 0.02 * i) for i in range(4)]
    losing = [trial(f"l{i}", "maths", [0, 0, 1, 0], slow=1 + 0.03 * i) for i in range(3)]
    return [*gaining, *losing, trial("l0", "maths", [0, 1, 0], turn=2)]


def report(trials: Sequence[Trial] | None = None, *, costs: Costs | None = COSTS, peers: bool = True) -> BenchReport:
    """The report of these trials; by default of `some_trials`."""
    trials = some_trials() if trials is None else list(trials)
    categories = dict.fromkeys(trial.category for trial in trials)
    turns = sorted({trial.turn for trial in trials})
    peer = PeerReport(
        name="engine",
        version="1.2",
        precision="Q8_0",
        mode="plain",
        speed=speed([t.samples[PEER] for t in trials]),
        speculative=speedup(trials, SPECULATIVE, over=PEER),
        plain=speedup(trials, PLAIN, over=PEER),
        identity=identity(trials, PEER),
        peak_bytes=300 << 20,
    )
    return BenchReport(
        bundle={"verifier": "Tiny <Llama>", "precision": "int8", "toolchain": {"onnxruntime": "1.32.0"}},
        settings={
            "specc": "0.1.0", "questions": 7, "turns": 2, "chat": True, "gamma": 2, "drafter": "ngram", "threads": 1,
            "max_new_tokens": 128, "temperature": 0.0,
        },
        machine={"processor": "A processor", "system": "Linux", "python": "3.11"},
        costs=costs,
        overall=summarise(trials, costs),
        categories={name: summarise([t for t in trials if t.category == name], costs) for name in categories},
        turns={turn: summarise([t for t in trials if t.turn == turn], costs) for turn in turns},
        identity=identity(trials),
        peak_bytes=500 << 20,
        peers=(peer,) if peers else (),
        skipped=(),
        trials=tuple(trials),
    )  # fmt: skip
