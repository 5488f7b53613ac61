"""MIGraphX: static programs in ONNX, built into .mxr files on the device by the bundle's own script."""

from specc.backends.migraphx.emit import HOST_OPTIONS, ROUND_OPTIONS, emit
from specc.backends.record import Backend

BACKEND = Backend(
    name="migraphx",
    state_dtypes=frozenset({"fp32", "fp16"}),  # its Python interface takes no bf16 buffers
    slack=0,
    emit=emit,
    measure_threads=None,
    toolchain=("onnx", "onnx_ir"),
    row_scales=True,
    runs_here=False,
    summary=__doc__,
    programs={**dict.fromkeys(("prefill", "verify", "catchup", "draft"), HOST_OPTIONS), "round": ROUND_OPTIONS},
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "int8"}),
)
