"""Building engines with TensorRT-RTX, which needs no GPU for it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import onnx_ir as ir

from specc.backends.tensorrt import compiler
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
    ("datatypes: fp8", "this architecture has no fp8: sm89 and sm120 have; give --precision with fp16 in its place"),
    ("datatypes: int4", "this architecture has no int4: it starts with sm80; give --precision mlp=int8"),
    (
        "_M_range_check",
        "the compiler crashes on 8-bit weights that several steps share and parallel products read; "
        "pack the products of one input into one, or leave the drafter in 16 bits",
    ),
)


def check_builder(target: str) -> None:
    """Raises TargetError: TensorRT-RTX is not installed, or in another version than the one that builds engines."""
    try:
        found = version(PACKAGE)
    except PackageNotFoundError as error:
        raise TargetError(f"target {target!r}: TensorRT-RTX is not installed: {INSTALL}") from error
    if found != VERSION:
        raise TargetError(f"target {target!r}: TensorRT-RTX {found} is installed, {VERSION} builds engines: {INSTALL}")


def build_engine(name: str, graph: ir.Model, profiles: Sequence[Profile], architectures: Sequence[str]) -> bytes:
    """The engine of one graph for all of `architectures`, its weights inside; the same bytes in every build.

    profiles: what the graph leaves open, fixed; none for a static graph. It is built in a process of its own
    (`compiler`), whose memory is then free again.
    Raises BuildError with the compiler's first error: an op it lacks, or attention that would lose its fused kernel.
    """
    with tempfile.TemporaryDirectory(prefix="specc-tensorrt-") as path:
        folder = Path(path)
        _write(graph, folder)
        capabilities = [COMPUTE_CAPABILITIES[architecture] for architecture in architectures]
        job = {"capabilities": capabilities, "profiles": [dict(profile) for profile in profiles]}
        (folder / "job.json").write_text(json.dumps(job))
        done = subprocess.run(
            [sys.executable, compiler.__file__, path], capture_output=True, text=True, env=_environment(), check=False
        )
        engine = folder / "engine"
        if engine.is_file():
            return engine.read_bytes()
        raise BuildError(_failure(name, architectures, _errors(folder, done)))


def _environment() -> dict[str, str]:
    """What finds the same interpreter and libraries, and no more: a process's memory depends on its environment."""
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV") if key in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _errors(folder: Path, done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What the compiler said, or the last line of a process that ended without a word."""
    said = folder / "errors.json"
    if said.is_file():
        errors: list[str] = json.loads(said.read_text())
        return errors
    last = done.stderr.strip().splitlines()[-1:] or ["nothing"]
    return [f"{last[0]} (it ended with status {done.returncode})"]


def _write(graph: ir.Model, folder: Path) -> None:
    """The graph in a file, its weights in another beside it: a protobuf ends at 2 GiB."""
    weights = WeightStore()
    weights.add(graph)
    weights.write(folder / WEIGHTS_FILE, lambda _: None)
    weights.point_into_file(graph)
    (folder / "graph.onnx").write_bytes(ir.to_proto(graph).SerializeToString())


def _failure(name: str, architectures: Sequence[str], errors: Sequence[str]) -> str:
    """One line: program, architectures, what to do if that is known, and the compiler's first error."""
    words = " | ".join(errors)
    advice = next((f"{sentence}; " for pattern, sentence in _ADVICE if pattern in words), "")
    first = " ".join((errors[0] if errors else "no error was logged").split())[:300]
    return f"tensorrt: no engine of {name} for {', '.join(architectures)}: {advice}the compiler says: {first}"
