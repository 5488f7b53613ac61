"""Building engines with TensorRT-RTX, which needs no GPU for it."""

import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx_ir as ir

from specc.backends.tensorrt.architectures import COMPUTE_CAPABILITIES
from specc.bundle.weight_store import WeightStore
from specc.errors import BuildError, TargetError
from specc_runtime.manifest import WEIGHTS_FILE

PACKAGE, VERSION = "tensorrt-rtx", "1.7.1.116"
INSTALL = 'pip install "specc[tensorrt]"'

Profile = Mapping[str, tuple[int, ...]]
"""Shapes of the inputs that the graph leaves open."""

# What the compiler says, and what to do about it. The compiler's own words follow in the error.
_ADVICE = (
    (
        "not supported by a dedicated kernel",
        "attention would lose its fused kernel: keep kv in 16 bits, and head sizes multiples of 16 up to 256",
    ),
    ("tactics_tiled_layout", "attention has no kernel for this head size: multiples of 16 up to 256 have one"),
    ("FP32 GEMM is not supported", "this architecture has no fp32 products: give --precision head=fp16,mlp=fp16,..."),
    ("HW-specific datatypes: b16", "this architecture has no bf16: give --precision with fp16 in its place"),
    ("FP8", "this architecture has no fp8: it starts with sm89"),
    (
        "_M_range_check",
        "the compiler crashes on 8-bit weights that several steps share and parallel products read; "
        "pack the products of one input into one, or leave the drafter in 16 bits",
    ),
)


def load_builder(target: str) -> ModuleType:
    """The module tensorrt_rtx. Raises TargetError: not installed, or of another version."""
    try:
        trt = import_module("tensorrt_rtx")
    except ImportError as error:
        raise TargetError(f"target {target!r}: TensorRT-RTX can't be imported ({error}): {INSTALL}") from error
    if trt.__version__ != VERSION:
        raise TargetError(
            f"target {target!r}: TensorRT-RTX {trt.__version__} is installed, {VERSION} builds engines: {INSTALL}"
        )
    return trt


def build_engine(
    name: str, graph: ir.Model, profiles: Sequence[Profile], architectures: Sequence[str], trt: ModuleType
) -> bytes:
    """The engine of one graph for all of `architectures`, its weights inside.

    profiles: what the graph leaves open, fixed; none for a static graph. Products of fp32 stay fp32: no TF32.
    Raises BuildError with the compiler's first error: an op it lacks, or attention that would lose its fused kernel.
    """
    log = _log(trt)
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    with tempfile.TemporaryDirectory(prefix="specc-tensorrt-") as folder:
        if not parser.parse_from_file(str(_write(graph, Path(folder)))):
            raise BuildError(_failure(name, architectures, [parser.get_error(0).desc(), *log.errors]))
        config = _config(trt, builder, profiles, architectures)
        plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildError(_failure(name, architectures, log.errors))
    return bytes(plan)


def _config(trt: ModuleType, builder: Any, profiles: Sequence[Profile], architectures: Sequence[str]) -> Any:
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.num_compute_capabilities = len(architectures)
    for index, architecture in enumerate(architectures):
        capability = getattr(trt.ComputeCapability, COMPUTE_CAPABILITIES[architecture])
        config.set_compute_capability(capability, index)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        for tensor, shape in shapes.items():
            profile.set_shape(tensor, shape, shape, shape)
        config.add_optimization_profile(profile)
    return config


def _write(graph: ir.Model, folder: Path) -> Path:
    """The graph in a file, its weights in another beside it: a protobuf ends at 2 GiB."""
    weights = WeightStore()
    weights.add(graph)
    weights.write(folder / WEIGHTS_FILE, lambda _: None)
    weights.point_into_file(graph)
    path = folder / "graph.onnx"
    path.write_bytes(ir.to_proto(graph).SerializeToString())
    return path


def _log(trt: ModuleType) -> Any:
    """A logger that keeps errors instead of printing them."""

    class Log(trt.ILogger):  # type: ignore[misc, name-defined]  # a class of a module that is imported when needed
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
                self.errors.append(message)

    return Log()


def _failure(name: str, architectures: Sequence[str], errors: Sequence[str]) -> str:
    """One line: program, architectures, what to do if that is known, and the compiler's first error."""
    words = " | ".join(errors)
    advice = next((f"{sentence}; " for pattern, sentence in _ADVICE if pattern in words), "")
    first = " ".join((errors[0] if errors else "no error was logged").split())[:300]
    return f"tensorrt: no engine of {name} for {', '.join(architectures)}: {advice}the compiler says: {first}"
