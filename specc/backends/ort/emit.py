"""Programs of the ONNX Runtime backend."""

from dataclasses import replace

import onnx_ir as ir

from specc.backends.ort import cuda
from specc.backends.record import CoreModel, EmitRequest, owned_state, signature, written_stepwise
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.bundle.staging import Staging
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.passes.bake_topology import bake_topology
from specc.passes.fuse_round import DRAFTER, VERIFIER, fuse_round
from specc.passes.widen_caches import widen_caches
from specc_runtime.manifest import RECOMPUTED, Program, ProgramKind

REQUIRES = ("ort>=1.32",)


def emit(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """One file a model: programs that differ only in their width share its session, hence its prepacked weights."""
    if request.target.kind == "gpu":
        return _emit_for_cuda(request, staging)
    width = request.prefill_width
    programs = _open_programs(request.verifier, staging, ("prefill", "verify"), width, drafter=None)
    programs += _recompute_program(request.verifier, staging, width)
    for key, drafter in request.drafters.items():
        programs += _open_programs(drafter, staging, ("catchup", "draft"), width, drafter=key)
        if request.fuse:
            programs += tuple(_round_program(request, key, gamma, staging) for gamma in request.gammas)
    return programs


def _emit_for_cuda(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """The same without rounds, and without `recompute`: attention over fp32 caches has no kernel there."""
    cuda.check_request(request)
    owners = [(request.verifier, None), *((core, key) for key, core in request.drafters.items())]
    programs: tuple[Program, ...] = ()
    for core, drafter in owners:
        kinds: tuple[ProgramKind, ...] = ("prefill", "verify") if drafter is None else ("catchup", "draft")
        programs += _programs(core, cuda.cuda_graph(core), staging, kinds, request.prefill_width, drafter)
    return tuple(replace(program, requires=cuda.REQUIRES) for program in programs)


def _recompute_program(verifier: CoreModel, staging: Staging, width: int) -> tuple[Program, ...]:
    """For full verification points: the verifier on fp32 caches, where its own are narrower; else none."""
    kept = verifier.state()
    wide = replace(verifier, graph=widen_caches(verifier.graph.clone()))
    narrow = {state.name for state, widened in zip(kept, wide.state(), strict=True) if state != widened}
    if not narrow:
        return ()
    path = f"programs/{verifier.role}.recompute.onnx"
    (program,) = _open_programs(wide, staging, ("recompute",), width, drafter=None, path=path)
    state = tuple(replace(s, role=RECOMPUTED + s.role) if s.name in narrow else s for s in program.state)
    return (replace(program, state=state),)


def _open_programs(
    core: CoreModel,
    staging: Staging,
    kinds: tuple[ProgramKind, ...],
    width: int,
    drafter: str | None,
    path: str | None = None,
) -> tuple[Program, ...]:
    """The programs of one decoder on the CPU."""
    graph = legalize(bake_topology(core.graph.clone(), None), "ort", OPS)
    return _programs(core, graph, staging, kinds, width, drafter, path)


def _programs(
    core: CoreModel,
    graph: ir.Model,
    staging: Staging,
    kinds: tuple[ProgramKind, ...],
    width: int,
    drafter: str | None,
    path: str | None = None,
) -> tuple[Program, ...]:
    """The programs of one graph that takes up to `width` tokens, in a file of the decoder's name."""
    path = path or f"programs/{core.role}.onnx"
    state = core.state()
    inputs, outputs = signature(graph, state)
    staging.add_graph(path, graph)
    return tuple(
        Program(
            id=f"{core.role}.{kind}",
            kind=kind,
            file=path,
            inputs=inputs,
            outputs=outputs,
            state=state,
            max_width=width,
            drafter=drafter,
            accept="host",
            options=HOST_OPTIONS,
            requires=REQUIRES,
        )
        for kind in kinds
    )


def _round_program(request: EmitRequest, key: str, gamma: int, staging: Staging) -> Program:
    """A whole round in one graph; its session prepacks weights of its own."""
    drafter = request.drafters[key]
    graph = fuse_round(request.verifier.graph, drafter.graph, gamma, head_ids=request.head_ids.get(key))
    verifier = request.verifier
    owned = owned_state(drafter.state(), drafter.role, DRAFTER)
    state = (*owned_state(verifier.state(), verifier.role, VERIFIER), *written_stepwise(owned, gamma))
    inputs, outputs = signature(graph, state)
    path = f"programs/round.{key}.gamma{gamma}.onnx"
    staging.add_graph(path, legalize(graph, "ort", OPS))
    return Program(
        id=f"{key}.round.gamma{gamma}",
        kind="round",
        file=path,
        inputs=inputs,
        outputs=outputs,
        state=state,
        width=gamma + 1,
        max_width=gamma + 1,
        drafter=key,
        accept="graph",
        options=ROUND_OPTIONS,
        requires=REQUIRES,
    )
