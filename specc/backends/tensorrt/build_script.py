"""The script of a portable bundle: it builds the engines on the device, with full TensorRT."""

from collections.abc import Mapping, Sequence

from specc.render.templates import render
from specc.targets import Target
from specc_runtime.engines.tensorrt_requirements import FULL

OLDEST_TENSORRT = 11
DEVICE_PACKAGE = f"{FULL}>={OLDEST_TENSORRT}"  # builds and runs engines where TensorRT-RTX built none
_WORKSPACE_SHARE = 0.25  # of the device's memory that the compiler may use as workspace
_SMALLEST_WORKSPACE_GIB = 1.0


def build_script(target: Target, engines: Sequence[tuple[str, Sequence[Mapping[str, tuple[int, ...]]]]]) -> str:
    """The text of BUILD_SCRIPT. engines: ONNX files of the bundle, each with the profiles that fix its open sizes."""
    workspace_gib = max(_SMALLEST_WORKSPACE_GIB, (target.memory_gib or 0) * _WORKSPACE_SHARE)
    return render(
        "build_tensorrt.py",
        title=target.title,
        architecture=target.architecture,
        oldest=OLDEST_TENSORRT,
        workspace_gib=workspace_gib,
        tactic_sources=target.tactic_sources,
        aux_streams=target.aux_streams,
        timing_cache=target.timing_cache,
        engines=engines,
    )
