"""ONNX Runtime: one graph a model with open widths, chained by the host; `--fuse` adds whole rounds."""

from specc.backends.arithmetic import StoredPart
from specc.backends.ort.emit import emit
from specc.backends.ort.evidence import EVIDENCE
from specc.backends.ort.threads import measure_threads
from specc.backends.record import Backend, Container
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.targets import Target


def _computed(_target: Target, stored: StoredPart) -> str:
    """8-bit weights by 8-bit activations; the kernels for x86 widen 16 bits to fp32."""
    return stored.widened


def _container(_target: Target, _built: bool) -> Container:
    return Container("python:3.12-slim", ("https://hub.docker.com/_/python",), ("onnxruntime",))


BACKEND = Backend(
    name="ort",
    state_dtypes=frozenset({"fp32", "fp16"}),
    slack=1,  # the attention op is fed two rows at least: a single one is repeated
    emit=emit,
    measure_threads=measure_threads,
    toolchain=("onnxruntime", "onnx", "onnx_ir"),
    computed=_computed,
    container=_container,
    summary=__doc__,
    programs={
        **dict.fromkeys(("prefill", "verify", "recompute", "catchup", "draft"), HOST_OPTIONS),
        "round": ROUND_OPTIONS,
    },
    weight_dtypes=frozenset({"fp32", "fp16", "bf16", "int8"}),
    evidence=EVIDENCE,
)
