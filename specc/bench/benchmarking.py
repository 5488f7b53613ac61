"""One benchmark from a loaded bundle to its report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import specc
from specc.bench.conversations import Conversations
from specc.bench.costs import Costs, measure_costs
from specc.bench.identity import identity
from specc.bench.machine import machine
from specc.bench.options import BenchOptions
from specc.bench.peers.workers import PeerWorker
from specc.bench.questions import Question
from specc.bench.report import BenchReport, PeerReport
from specc.bench.running import Runner
from specc.bench.samples import PLAIN, SPECULATIVE, Trial
from specc.bench.summary import speed, speedup, summarise
from specc.errors import BenchError
from specc.progress import Progress, Silent
from specc_runtime import Engine
from specc_runtime.resident_memory import peak_bytes

COST_PROMPTS = 8


def run_benchmark(
    engine: Engine,
    questions: Sequence[Question],
    options: BenchOptions,
    peers: Sequence[PeerWorker] = (),
    progress: Progress | None = None,
) -> BenchReport:
    """Decode `questions` on all sides. Raises BenchError when none of them fits the context."""
    progress = progress or Silent()
    conversations = Conversations(engine, options.chat)
    runner = Runner(engine, options, conversations, peers)
    with progress.step("warming up"):
        runner.warm_up(questions[0])
    with progress.step("timing rounds of each length"):
        costs = _costs(engine, questions, options, conversations)
    trials: list[Trial] = []
    with progress.step("decoding", len(questions)) as step:
        for question in questions:
            trials += runner.ask(question)
            step.advance()
    if not trials:
        raise BenchError(f"prompts: none of {len(questions)} fits the context with its answer; compile a larger one")
    return BenchReport(
        bundle=_bundle(engine),
        settings=_settings(options, conversations, questions),
        machine=machine(),
        costs=costs,
        overall=summarise(trials, costs),
        categories={name: summarise(group, costs) for name, group in _grouped(trials, "category").items()},
        turns={turn: summarise(group, costs) for turn, group in _grouped(trials, "turn").items()},
        identity=identity(trials),
        peak_bytes=peak_bytes(),
        peers=tuple(_peer_report(peer, mode, trials) for peer in peers for mode in peer.modes),
        skipped=tuple(runner.skipped),
        trials=tuple(trials),
    )


def _costs(
    engine: Engine, questions: Sequence[Question], options: BenchOptions, conversations: Conversations
) -> Costs | None:
    most = engine.manifest.context // 2
    prompts = [conversations.prompt(question.turns[:1], [])[:most] for question in questions[:COST_PROMPTS]]
    longest = options.gamma if isinstance(options.gamma, int) else max(engine.manifest.gammas, default=0)
    tokens = [np.asarray(prompt, np.int64) for prompt in prompts]
    return measure_costs(engine, options.drafter, tokens, longest, options.cost_s, options.sampling)


def _grouped(trials: Iterable[Trial], name: str) -> dict[Any, list[Trial]]:
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(getattr(trial, name), []).append(trial)
    return groups


def _peer_report(peer: PeerWorker, mode: str, trials: Sequence[Trial]) -> PeerReport:
    side = peer.side(mode)
    return PeerReport(
        name=peer.name,
        version=peer.version,
        precision=peer.precision,
        mode=mode,
        speed=speed([trial.samples[side] for trial in trials]),
        speculative=speedup(trials, SPECULATIVE, over=side),
        plain=speedup(trials, PLAIN, over=side),
        identity=identity(trials, side),
        peak_bytes=peer.peak_bytes(),
    )


def _bundle(engine: Engine) -> Mapping[str, Any]:
    manifest = engine.manifest
    return {
        "path": str(engine.bundle.root),
        "verifier": manifest.verifier.name,
        "drafters": {key: info.source for key, info in manifest.drafters.items()},
        "precision": manifest.precision_name,
        "target": manifest.target,
        "context": manifest.context,
        "gammas": list(manifest.gammas),
        "gamma": manifest.gamma,
        "compiled_by": f"specc {manifest.specc_version}",
        "toolchain": dict(manifest.toolchain),
    }


def _settings(options: BenchOptions, conversations: Conversations, questions: Sequence[Question]) -> Mapping[str, Any]:
    sampling = options.sampling
    return {
        "specc": specc.__version__,
        "questions": len(questions),
        "turns": options.turns,
        "chat": conversations.chat,
        "gamma": options.gamma,
        "drafter": options.drafter,
        "threads": options.threads,
        "max_new_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "ignore_eos": sampling.ignore_eos,
    }
