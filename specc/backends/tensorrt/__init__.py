"""TensorRT: engines for NVIDIA GPUs, built without one where TensorRT-RTX has the architecture, else on the device."""

from specc.backends.record import Backend
from specc.backends.tensorrt.architectures import default_precision
from specc.backends.tensorrt.build_script import SCRIPT
from specc.backends.tensorrt.emit import ROUND_OPTIONS, emit
from specc_runtime.params import OPTIONS

BACKEND = Backend(
    name="tensorrt",
    state_dtypes=frozenset({"fp16", "bf16"}),  # attention in fp32 has no fused kernel
    slack=0,
    emit=emit,
    measure_threads=None,
    toolchain=("onnx", "onnx_ir"),
    row_scales=True,
    runs_here=False,
    default_precision=default_precision,
    summary="Engines for NVIDIA GPUs: TensorRT-RTX builds them without a GPU, full TensorRT on the device",
    programs={kind: tuple(sorted(OPTIONS)) for kind in ("prefill", "verify", "draft", "catchup")}
    | {"round": ROUND_OPTIONS},
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "int8"}),
    build_script=SCRIPT,
)
