"""XLA: static programs as JAX exports and StableHLO, weights as their arguments; TPU executables without a TPU."""

from specc.backends.record import Backend, EmitRequest
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.backends.xla.container import container
from specc.backends.xla.evidence import EVIDENCE
from specc.backends.xla.hardware import cache_rows
from specc.backends.xla.installed import require_jax
from specc.backends.xla.machine import computed
from specc.backends.xla.topologies import portable_because, prepare_environment
from specc.bundle.staging import Staging
from specc_runtime.manifest import Program


def _emit(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """JAX is imported when something is compiled, not when backends are listed."""
    require_jax()
    if request.target.kind != "cpu":
        prepare_environment()
    from specc.backends.xla.emit import emit

    return emit(request, staging)


BACKEND = Backend(
    name="xla",
    state_dtypes=lambda _: frozenset({"fp32", "fp16", "bf16"}),
    slack=0,
    emit=_emit,
    measure_threads=None,
    toolchain=("jax", "jaxlib", "onnx_ir"),
    computed=computed,
    container=container,
    row_scales=True,
    compiler_options=True,
    portable_because=portable_because,
    cache_rows=cache_rows,
    summary=__doc__,
    programs={
        **dict.fromkeys(("prefill", "verify", "catchup", "draft"), HOST_OPTIONS),
        **dict.fromkeys(("round", "loop"), ROUND_OPTIONS),
    },
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "int8"}),
    evidence=EVIDENCE,
)
