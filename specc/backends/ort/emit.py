"""Programs of the ONNX Runtime backend."""

from specc.backends.record import CoreModel, EmitRequest, tensor_spec
from specc.bundle.staging import Staging
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.passes.bake_topology import bake_topology
from specc_runtime.manifest import Program, ProgramKind
from specc_runtime.params import OPTIONS

REQUIRES = ("ort>=1.32",)


def emit(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """One file a model: programs that differ only in their width share its session, hence its prepacked weights."""
    width = request.prefill_width
    programs = _open_programs(request.verifier, staging, ("prefill", "verify"), width, drafter=None)
    for key, drafter in request.drafters.items():
        programs += _open_programs(drafter, staging, ("catchup", "draft"), width, drafter=key)
    return programs


def _open_programs(
    core: CoreModel, staging: Staging, kinds: tuple[ProgramKind, ...], width: int, drafter: str | None
) -> tuple[Program, ...]:
    """The programs of one decoder: one graph that takes up to `width` tokens."""
    path = f"programs/{core.role}.onnx"
    graph = bake_topology(core.graph.clone(), None)
    state = core.state()
    cached = {s.name for s in state} | {s.output for s in state}
    inputs = tuple(tensor_spec(v) for v in graph.graph.inputs if v.name not in cached)
    outputs = tuple(tensor_spec(v) for v in graph.graph.outputs if v.name not in cached)
    staging.add_graph(path, legalize(graph, "ort", OPS))
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
            options=tuple(sorted(OPTIONS)),
            requires=REQUIRES,
        )
        for kind in kinds
    )
