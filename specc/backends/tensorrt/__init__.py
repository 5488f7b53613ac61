"""TensorRT on NVIDIA GPUs, untested on device: engines built without a GPU, or by the bundle's script on the device."""

from specc.backends.images import CUDA, NVIDIA_DEVICES
from specc.backends.record import Backend, Container
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.backends.tensorrt.architectures import computed, default_precision
from specc.backends.tensorrt.build_script import DEVICE_PACKAGE
from specc.backends.tensorrt.building import PACKAGE
from specc.backends.tensorrt.emit import emit
from specc.backends.tensorrt.evidence import EVIDENCE
from specc.targets import Target
from specc_runtime.engines.tensorrt_requirements import BUILD_SCRIPT


def _container(_target: Target, built: bool) -> Container:
    """TensorRT-RTX for engines that were built by it, the full one for those it builds on the device."""
    return Container(
        CUDA.name,
        (CUDA.source, "https://pypi.org/project/tensorrt/"),
        (PACKAGE if built else DEVICE_PACKAGE, "cuda-python>=13"),
        devices=NVIDIA_DEVICES,
    )


BACKEND = Backend(
    name="tensorrt",
    state_dtypes=lambda _: frozenset({"fp16", "bf16"}),  # attention in fp32 has no fused kernel
    slack=0,
    emit=emit,
    measure_threads=None,
    toolchain=(PACKAGE, "onnx", "onnx_ir"),
    computed=computed,
    container=_container,
    row_scales=True,
    default_precision=default_precision,
    summary=__doc__,
    programs={**dict.fromkeys(("prefill", "verify", "catchup", "draft"), HOST_OPTIONS), "round": ROUND_OPTIONS},
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "fp8", "int8", "int4", "w8a8"}),
    evidence=EVIDENCE,
    build_script=BUILD_SCRIPT,
)
