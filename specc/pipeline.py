"""The compiler on one screen: two checkpoints in, one bundle out."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from specc.assembly.accounting import KV, engine_copies
from specc.assembly.calibration import read_calibration
from specc.assembly.core_models import drafter_core, verifier_core
from specc.assembly.describing import described, readme
from specc.assembly.plan import Plan, made_plan
from specc.assembly.quality import TOKENS, distance_from_checkpoint
from specc.backends.record import CoreModel, EmitRequest
from specc.bundle.layout import CORE_CONFIG, CORE_GRAPH
from specc.bundle.leftovers import clear_leftovers
from specc.bundle.resident_memory import resident_bytes
from specc.bundle.staging import Staging, check_output, staged
from specc.errors import CompileError
from specc.options import CompileOptions
from specc.progress import Progress, Silent
from specc.reports import CompileReport
from specc.speculation.measuring import measured_speculation
from specc.speculation.prompts import calibration_prompts
from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Tokens
from specc_runtime.manifest import Manifest, Program

Measure = Callable[[Bundle, Sequence[Tokens]], Manifest]
README = "README.md"
PREFILL_WIDTH = 256  # prompt tokens fed at once: enough to be bound by arithmetic, and activations stay small


def compile_bundle(
    options: CompileOptions, progress: Progress | None = None, measure: Measure = measured_speculation
) -> CompileReport:
    """Compile a verifier and a drafter for one target. measure: what times speculation, unless the options decline.

    Raises CompileError. Whatever happens, a bundle that stood at `options.output` stays until the new one is complete.
    """
    progress, started = progress or Silent(), time.monotonic()
    output = Path(os.path.realpath(options.output))
    clear_leftovers(output)
    check_output(output, replace=options.force)
    plan = made_plan(options, progress)
    with progress.step("building graphs"):
        verifier, drafters = _cores(plan, plan.context + plan.slack)
    with staged(output, replace=options.force) as staging:
        programs = _emit(plan, verifier, drafters, staging, progress)
        manifest = described(plan, verifier, drafters, programs, staging)
        manifest = _measured(plan, manifest, staging, measure, progress)
        with progress.step("hashing", staging.total_bytes) as step:
            manifest = replace(manifest, files=staging.file_entries(step.advance))
        manifest, unmeasured = _weighed(plan, manifest, staging, progress)
        staging.add_file(README, readme(plan, manifest, staging))
        manifest = replace(manifest, files={**manifest.files, README: staging.file_entry(README)})
        staging.write_manifest(manifest)
    warnings = (*_warnings(plan, manifest), *unmeasured)
    return CompileReport(options.output, manifest, time.monotonic() - started, warnings)


def _cores(plan: Plan, rows: int) -> tuple[CoreModel, dict[str, CoreModel]]:
    """The core graphs; rows: of the verifier's caches."""
    scales = plan.backend.row_scales
    verifier = verifier_core(plan.verifier, plan.precision, rows, plan.drafters, row_scales=scales)
    return verifier, {
        d.key: drafter_core(d, plan.precision, d.context + plan.slack, rows, row_scales=scales) for d in plan.drafters
    }


def _emit(
    plan: Plan, verifier: CoreModel, drafters: Mapping[str, CoreModel], staging: Staging, progress: Progress
) -> tuple[Program, ...]:
    request = EmitRequest(
        target=plan.target,
        verifier=verifier,
        drafters=drafters,
        head_ids={d.key: d.head_ids for d in plan.drafters if not isinstance(d.head_ids, int)},
        gammas=plan.gammas,
        prefill_width=max(min(PREFILL_WIDTH, plan.context), max(plan.gammas) + 1),
        fuse=plan.options.fuse,
        loop=plan.options.loop,
        xla_options=plan.options.xla_options,
    )
    with progress.step("lowering"):
        for core in (verifier, *drafters.values()):
            staging.add_graph(CORE_GRAPH.format(role=core.role), core.graph.clone())
        staging.add_file(CORE_CONFIG, json.dumps(dict(plan.verifier.checkpoint.config), indent=1))
        programs = plan.backend.emit(request, staging)
    with progress.step("writing weights", staging.weights.total_bytes) as step:
        staging.write_graphs(step.advance)
    return programs


def _measured(plan: Plan, manifest: Manifest, staging: Staging, measure: Measure, progress: Progress) -> Manifest:
    """What only the finished programs can tell: best number of threads, distance from the checkpoint, speculation."""
    written = Bundle(staging.root, manifest)
    if manifest.threads is None and plan.backend.measure_threads is not None and _runs_here(plan):
        with progress.step("measuring threads"):
            manifest = replace(manifest, threads=plan.backend.measure_threads(written))
    if not _runs_here(plan):
        return manifest
    if plan.precision.verifier_is_quantised and plan.verifier.checkpoint.tokenizer is not None:
        with progress.step("measuring the distance from the checkpoint", TOKENS) as step:
            quality = distance_from_checkpoint(written, plan.verifier, plan.options.calibration, step)
        manifest = replace(manifest, quality=quality)
    if plan.options.measure:
        with progress.step("measuring speculation"):
            own_text = None if plan.options.calibration is None else read_calibration(plan.options.calibration)
            timed = Bundle(staging.root, manifest)
            manifest = measure(timed, calibration_prompts(timed, own_text))
    return manifest


def _weighed(plan: Plan, manifest: Manifest, staging: Staging, progress: Progress) -> tuple[Manifest, tuple[str, ...]]:
    """With the memory that running the finished bundle takes, or else a warning that says why it is not known."""
    if not (plan.options.measure and _runs_here(plan)):
        return manifest, ()
    staging.write_manifest(manifest)
    try:
        with progress.step("measuring memory"):
            return replace(manifest, resident_bytes=resident_bytes(staging.root)), ()
    except CompileError as error:
        return manifest, (str(error),)


def _runs_here(plan: Plan) -> bool:
    """Whether what was compiled runs on this machine: an accelerator's programs are made without one."""
    return plan.target.kind == "cpu" and plan.target.devices == 1


def _warnings(plan: Plan, manifest: Manifest) -> Iterator[str]:
    """What the user should know of what was made."""
    for key, drafter in manifest.drafters.items():
        copied = {p.part.split(".")[1]: p.bytes for p in manifest.precision if p.part.startswith(f"{key}.")}
        copied.pop(KV, None)
        if plan.options.draft.kind == "slice" and copied:
            parts, size = ", ".join(copied), sum(copied.values())
            yield f"drafter {key!r} has its own {parts} ({size:,} bytes): in another dtype than the verifier's, or cut"
        if drafter.model is not None and drafter.model.context < manifest.context:
            yield f"drafter {key!r} reaches to position {drafter.model.context}; plain decoding beyond it"
    if plan.backend.build_script is not None and not all(program.built for program in manifest.programs):
        yield f"programs are built on the device, by the bundle's {plan.backend.build_script}"
    because = plan.backend.portable_because
    if because is not None and not all(p.built for p in manifest.programs) and (reason := because(plan.target)):
        yield reason
    if copies := engine_copies(manifest.programs, manifest.files):
        yield copies
        return
    rounds = sum(program.kind == "round" and not program.weights for program in manifest.programs)
    if rounds:
        weights = sum(p.bytes for p in manifest.precision if not p.part.endswith((".kv", ".embedding", ".rope")))
        yield f"{rounds} round programs: with --fused each holds its own copy of the weights ({weights:,} bytes)"
