"""Which GPUs an engine can be built for without one."""

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from specc.backends.arithmetic import StoredPart
from specc.errors import OptionError, TargetError
from specc.options import CODED
from specc.targets import Target

# What TensorRT-RTX calls each architecture it compiles for ahead of time.
COMPUTE_CAPABILITIES: Mapping[str, str] = {
    "sm75": "SM75",
    "sm80": "SM80",
    "sm86": "SM86",
    "sm89": "SM89",
    "sm120": "SM120",
    "sm121": "SM121",
}
WITHOUT_FP32_PRODUCTS = frozenset({"sm75"})
# Codes that not every architecture takes, and those that engines with them were built for.
CODES: Mapping[ir.DataType, tuple[str, frozenset[str]]] = {
    ir.DataType.FLOAT8E4M3FN: ("fp8", frozenset({"sm89", "sm120", "sm121"})),
    ir.DataType.INT4: ("int4", frozenset(COMPUTE_CAPABILITIES) - {"sm75"}),
}


def architectures(target: Target) -> tuple[str, ...]:
    """The architectures of a target, or of several that share a bundle."""
    return tuple(target.architecture.split(","))


def is_buildable(target: Target) -> bool:
    """Whether engines for `target` are built here; if not, its bundle carries ONNX and a script that builds them there.

    Raises TargetError: several targets, of which some can be built for and some can't.
    """
    known = [name in COMPUTE_CAPABILITIES for name in architectures(target)]
    if any(known) and not all(known):
        raise TargetError(
            f"targets {target.name}: engines are built here for {', '.join(COMPUTE_CAPABILITIES)} only; "
            "compile the others into a bundle of their own"
        )
    return all(known)


def check_codes(target: Target, graphs: Iterable[ir.Model]) -> None:
    """Raises OptionError: weights of `graphs` are stored in codes that an architecture of `target` does not take."""
    found = {weight.dtype for graph in graphs for weight in graph.graph.initializers.values()}
    for dtype, (name, takes) in CODES.items():
        lacking = [architecture for architecture in architectures(target) if architecture not in takes]
        if dtype in found and lacking:
            raise OptionError(
                f"precision: {name} is built for {', '.join(sorted(takes))}, and target {target.name} is "
                f"{', '.join(lacking)}; give int8 or 16 bits in its place"
            )


def default_precision(target: Target) -> str:
    """16-bit attention, an 8-bit drafter and a head in fp32, where every architecture has fp32 products."""
    if WITHOUT_FP32_PRODUCTS & set(architectures(target)):
        return "balanced,mlp=fp16,head=fp16,embedding=fp16"
    return "balanced"


def computed(_target: Target, stored: StoredPart) -> str:
    """16 bits in 16 bits, codes in the caches' dtype, wherever the engine runs."""
    if not stored.is_multiplied:
        return stored.widened
    if stored.dtype == "w8a8":
        return "int8"
    return stored.caches if stored.dtype in CODED else stored.dtype
