"""Which GPUs an engine can be built for without one."""

from collections.abc import Mapping

from specc.backends.arithmetic import StoredPart
from specc.errors import TargetError
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


def default_precision(target: Target) -> str:
    """16-bit attention, an 8-bit drafter and a head in fp32, where every architecture has fp32 products."""
    if WITHOUT_FP32_PRODUCTS & set(architectures(target)):
        return "balanced,mlp=fp16,head=fp16,embedding=fp16"
    return "balanced"


def computed(_target: Target, stored: StoredPart) -> str:
    """16 bits in 16 bits, codes of 8 bits in the caches' dtype, wherever the engine runs."""
    if not stored.is_multiplied:
        return stored.widened
    return stored.caches if stored.dtype == "int8" else stored.dtype
