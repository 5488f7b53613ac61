"""Programs of the TensorRT backend: an engine a model, with a profile for each width, and rounds in one engine each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from specc.backends.record import CoreModel, EmitRequest, owned_state, signature, written_stepwise
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.backends.steps import Step, drafter_steps, verifier_steps
from specc.backends.tensorrt.architectures import architectures, check_codes, is_buildable
from specc.backends.tensorrt.build_script import DEVICE_PACKAGE, build_script
from specc.backends.tensorrt.building import PACKAGE, VERSION, Profile, build_engine, check_builder
from specc.backends.tensorrt.graphs import lowered_state, round_graph, stepping_graph
from specc.backends.tensorrt.lint import check_dialect
from specc.bundle.staging import Staging
from specc.errors import TargetError
from specc.passes.alias_updates import is_taken_again
from specc.passes.fuse_round import DRAFTER, VERIFIER
from specc.passes.set_width import ROWS, WIDTH
from specc_runtime.engines.tensorrt_requirements import BUILD_SCRIPT
from specc_runtime.manifest import FEATURES, Program, TensorSpec


@dataclass(frozen=True)
class EngineGraph:
    """One engine to be: its graph, the programs it holds, one a profile, and the profiles; none for a static graph."""

    stem: str
    graph: ir.Model
    programs: tuple[Program, ...]
    profiles: tuple[Profile, ...] = ()


def emit(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """Build every engine where TensorRT-RTX has the architecture; elsewhere ONNX files and the script that builds them.

    Engines hold weights of their own, those of one model's widths once.
    """
    check_codes(request.target, (core.graph for core in (request.verifier, *request.drafters.values())))
    if is_buildable(request.target):
        return _built(request, staging)
    return _portable(request, staging)


def engine_graphs(request: EmitRequest) -> Iterator[EngineGraph]:
    """The engines of a request, one after the other, each made when it is asked for."""
    prompts = [request.prefill_width]
    yield _stepping(request.verifier, verifier_steps(request.gammas, prompts), drafter=None)
    for key, drafter in request.drafters.items():
        yield _stepping(drafter, drafter_steps(drafter, request.gammas, prompts), drafter=key)
        for gamma in request.gammas:
            yield _round(request, key, gamma)


def _built(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    check_builder(request.target.name)
    names = architectures(request.target)
    requires = (f"{PACKAGE}=={VERSION}", "cuda:" + "|".join(names))
    programs: tuple[Program, ...] = ()
    for engine in engine_graphs(request):
        check_dialect(engine.stem, engine.graph.graph)
        path = f"programs/{engine.stem}.engine"
        staging.add_file(path, build_engine(engine.stem, engine.graph, engine.profiles, names))
        programs += tuple(replace(p, file=path, built=True, requires=requires) for p in engine.programs)
    return programs


def _portable(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    names = architectures(request.target)
    if len(names) > 1:
        raise TargetError(f"targets {request.target.name}: engines for them are built on the device; compile one each")
    requires = (DEVICE_PACKAGE, f"cuda:{names[0]}")
    programs: tuple[Program, ...] = ()
    engines = []
    for engine in engine_graphs(request):
        check_dialect(engine.stem, engine.graph.graph)
        path = f"programs/{engine.stem}.onnx"
        staging.add_graph(path, engine.graph)
        engines.append((path, engine.profiles))
        programs += tuple(replace(p, file=path, requires=requires) for p in engine.programs)
    staging.add_file(BUILD_SCRIPT, build_script(request.target, engines))
    return programs


def _stepping(core: CoreModel, steps: Iterable[Step], drafter: str | None) -> EngineGraph:
    """The programs of one decoder. Those of one width share a profile: the one that gives most rows, at least one."""
    graph, state = stepping_graph(core), lowered_state(core)
    inputs, outputs = signature(graph, state)
    opened = {spec.name for spec in inputs if any(isinstance(d, str) for d in spec.shape)}
    programs: list[Program] = []
    profiles: dict[int, Profile] = {}
    asked = sorted(((step.width, max(step.rows, 1), step.kind) for step in steps), key=lambda step: step[:2])
    rows_of = {width: rows for width, rows, _ in asked}
    for width, rows, kind in asked:
        if rows != rows_of[width]:
            continue
        fed = tuple(_fixed(spec, {WIDTH: width, ROWS: rows}) for spec in inputs)
        programs.append(
            Program(
                id=f"{core.role}.{kind}.{width}",
                kind=kind,
                file="",
                inputs=fed,
                outputs=tuple(_fixed(spec, {WIDTH: width, ROWS: rows}) for spec in outputs),
                state=state,
                width=width,
                max_width=width,
                drafter=drafter,
                options=HOST_OPTIONS,
            )
        )
        profiles[width] = {s.name: tuple(int(d) for d in s.shape) for s in fed if s.name in opened}
    return EngineGraph(core.role, graph, tuple(programs), tuple(profiles.values()))


def _fixed(spec: TensorSpec, sizes: dict[str, int]) -> TensorSpec:
    return replace(spec, shape=tuple(sizes.get(d, d) if isinstance(d, str) else d for d in spec.shape))


def _round(request: EmitRequest, key: str, gamma: int) -> EngineGraph:
    drafter = request.drafters[key]
    in_place = request.target.in_place_caches
    graph = round_graph(request.verifier, drafter, gamma, request.head_ids.get(key), in_place=in_place)
    owned = owned_state(lowered_state(drafter), drafter.role, DRAFTER)
    if in_place:  # features are handed on: the verifier alone writes them
        features = tuple(s for s in owned if s.role == FEATURES)
        owned = (*written_stepwise((s for s in owned if s.role != FEATURES), gamma), *features)
    state = (*owned_state(lowered_state(request.verifier), request.verifier.role, VERIFIER), *owned)
    inputs, outputs = signature(graph, state)
    program = Program(
        id=f"{key}.round.gamma{gamma}{'.in-place-unproven' if in_place else ''}",
        kind="round",
        file="",
        inputs=tuple(spec for spec in inputs if not is_taken_again(spec.name)),
        outputs=outputs,
        state=state,
        width=gamma + 1,
        max_width=gamma + 1,
        drafter=key,
        accept="graph",
        options=ROUND_OPTIONS,
    )
    return EngineGraph(f"round.{key}.gamma{gamma}", graph, (program,))
