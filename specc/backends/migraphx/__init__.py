"""MIGraphX on AMD GPUs, untested on device: static programs in ONNX, which the bundle's script builds there."""

from specc.backends.arithmetic import StoredPart
from specc.backends.images import AMD_DEVICES, ROCM
from specc.backends.migraphx.emit import emit
from specc.backends.migraphx.evidence import EVIDENCE
from specc.backends.record import Backend, Container
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.targets import Target
from specc_runtime.engines.migraphx_machine import BUILD_SCRIPT


def _computed(_target: Target, stored: StoredPart) -> str:
    """Products in the dtype the weight or cache is stored in, on every GPU; the rest is widened."""
    return stored.dtype if stored.is_multiplied else stored.widened


def _container(_target: Target, _built: bool) -> Container:
    """AMD's development image of the ROCm that ships MIGraphX 2.15, which its own package repository has."""
    return Container(
        ROCM.name,
        (ROCM.source, "https://rocm.docs.amd.com/projects/AMDMIGraphX/en/latest/install/install-migraphx.html"),
        system_packages=("migraphx",),
        environment={"PYTHONPATH": "/opt/rocm/lib"},  # where that package puts its Python module
        devices=AMD_DEVICES,
        on_triton=False,
    )


BACKEND = Backend(
    name="migraphx",
    state_dtypes=lambda _: frozenset({"fp32", "fp16"}),  # its Python interface takes no bf16 buffers
    slack=0,
    emit=emit,
    measure_threads=None,
    toolchain=("onnx", "onnx_ir"),
    computed=_computed,
    container=_container,
    row_scales=True,
    summary=__doc__,
    programs={**dict.fromkeys(("prefill", "verify", "catchup", "draft"), HOST_OPTIONS), "round": ROUND_OPTIONS},
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "int8"}),
    evidence=EVIDENCE,
    build_script=BUILD_SCRIPT,
    eight_bit_verifier=False,
)
