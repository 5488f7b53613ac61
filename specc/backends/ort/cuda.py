"""The form for NVIDIA GPUs: attention over caches in 16 bits, products in the dtype of their weights."""

import onnx_ir as ir

from specc.backends.record import CoreModel, EmitRequest
from specc.core.initializers import part_of
from specc.errors import OptionError
from specc.legalize.ort_cuda import OPS
from specc.legalize.rewriting import legalize
from specc.passes.bake_topology import bake_topology
from specc.passes.head import TABLE
from specc.passes.narrow_linears import narrow_linears
from specc.targets import Target
from specc_runtime.engines.ort_requirements import ON_CUDA

REQUIRES = (ON_CUDA,)
WITHOUT_ROUNDS = "leave --fuse out, or compile with --backend tensorrt, whose bundles have rounds"


def default_precision(target: Target) -> str:
    """The reference on a CPU; on a GPU 16-bit attention and an 8-bit drafter, in the 16-bit types that it has."""
    if target.kind == "cpu":
        return "reference"
    return "balanced" if "bf16" in target.dtypes else "balanced,mlp=fp16,embedding=fp16"


def check_request(request: EmitRequest) -> None:
    """Raises OptionError: rounds, or dtypes that ONNX Runtime has no CUDA kernel for and would run on the CPU."""
    if request.fuse:
        raise OptionError(f"fuse: backend 'ort' builds no rounds for a GPU; {WITHOUT_ROUNDS}")
    for core in (request.verifier, *request.drafters.values()):
        if any(state.dtype == "float32" and state.role.startswith("layers.") for state in core.state()):
            raise OptionError(
                f"precision: caches of {core.role} in fp32 have no attention kernel on a GPU, and ONNX Runtime would "
                "run it on the CPU; give kv=fp16, or leave --precision out"
            )
        if "bf16" not in request.target.dtypes and (name := _first_bf16(core.graph)):
            raise OptionError(
                f"precision: {request.target.name} has no bf16, and {name!r} of {core.role} is stored in it; "
                "give fp16 in its place"
            )


def cuda_graph(core: CoreModel) -> ir.Model:
    """A decoder that is fed S tokens and gives R rows of logits, both open."""
    narrow_caches = any(state.dtype == "float16" for state in core.state())
    scales = ir.DataType.FLOAT16 if narrow_caches else None
    graph = narrow_linears(core.graph.clone(), scales=scales, wide_head=core.wide_head)
    return legalize(bake_topology(graph, None), "ort-cuda", OPS)


def _first_bf16(graph: ir.Model) -> str | None:
    """A weight in bf16 that is multiplied; rows of a table are widened one by one."""
    weights = graph.graph.initializers.values()
    return next((str(w.name) for w in weights if w.dtype == ir.DataType.BFLOAT16 and part_of(w) != TABLE), None)
