"""ONNX Runtime: one graph a model with open widths, chained by the host."""

from specc.backends.arithmetic import StoredPart
from specc.backends.images import CUDA_WITH_CUDNN, NVIDIA_DEVICES, PYTHON
from specc.backends.ort.cuda import default_precision
from specc.backends.ort.emit import emit
from specc.backends.ort.evidence import EVIDENCE
from specc.backends.ort.threads import measure_threads
from specc.backends.record import Backend, Container
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.targets import Target
from specc_runtime.engines.ort_requirements import CUDA_PACKAGE

SUMMARY = (
    "ONNX Runtime: one graph a model with open widths, chained by the host; `--fuse` adds whole rounds. On NVIDIA "
    "GPUs, untested on device: attention in fp16, products in the dtype of their weights, no rounds, no `recompute`."
)


def _computed(target: Target, stored: StoredPart) -> str:
    """8-bit weights by 8-bit activations; the kernels for x86 widen 16 bits to fp32. On a GPU as they are stored."""
    if target.kind == "cpu" or not stored.is_multiplied:
        return stored.widened
    return stored.caches if stored.dtype == "int8" else stored.dtype


def _state_dtypes(target: Target) -> frozenset[str]:
    """Attention has CUDA kernels in 16 bits only."""
    return frozenset({"fp32", "fp16"} if target.kind == "cpu" else {"fp16"})


def _container(target: Target, _built: bool) -> Container:
    if target.kind == "gpu":
        return Container(
            CUDA_WITH_CUDNN.name,
            (CUDA_WITH_CUDNN.source, "https://pypi.org/project/onnxruntime-gpu/"),
            (CUDA_PACKAGE,),
            devices=NVIDIA_DEVICES,
        )
    return Container(PYTHON.name, (PYTHON.source,), ("onnxruntime",))


BACKEND = Backend(
    name="ort",
    state_dtypes=_state_dtypes,
    slack=1,  # the attention op is fed two rows at least: a single one is repeated
    emit=emit,
    measure_threads=measure_threads,
    toolchain=("onnxruntime", "onnx", "onnx_ir"),
    computed=_computed,
    container=_container,
    default_gammas=(1, 2, 4),
    default_precision=default_precision,
    summary=SUMMARY,
    programs={
        **dict.fromkeys(("prefill", "verify", "recompute", "catchup", "draft"), HOST_OPTIONS),
        "round": ROUND_OPTIONS,
    },
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "int8"}),
    evidence=EVIDENCE,
)
