"""What the lowering must know of the machine that programs are compiled for."""

from dataclasses import dataclass

from specc.backends.arithmetic import HALVES, StoredPart
from specc.backends.xla.hardware import hardware_of
from specc.targets import Target


@dataclass(frozen=True)
class Machine:
    """platform: JAX's name for the kind of device. matrix_dtypes: 16-bit floats its matrix units multiply.

    matrix_rows: rows that a product is padded to, since fewer do not reach the matrix units. devices: that share a
    program.
    """

    platform: str
    matrix_dtypes: frozenset[str] = frozenset()
    matrix_rows: int = 1
    devices: int = 1

    def multiplies(self, dtype: str) -> bool:
        """Whether products of 16-bit floats `dtype` ("bfloat16", "float16") run on its matrix units."""
        return dtype in self.matrix_dtypes


CPU = Machine("cpu")

_NAMES = {"bf16": "bfloat16", "fp16": "float16"}


def platform_of(target: Target) -> str:
    """JAX's name for the target's kind of device."""
    if target.kind != "gpu":
        return target.kind
    return "rocm" if target.architecture.startswith("gfx") else "cuda"


def machine_of(target: Target) -> Machine:
    """The machine that a target file describes."""
    return Machine(
        platform=platform_of(target),
        matrix_dtypes=frozenset(_NAMES[dtype] for dtype in target.dtypes if dtype in _NAMES),
        matrix_rows=hardware_of(target).matrix_rows,
        devices=target.devices,
    )


def computed(target: Target, stored: StoredPart) -> str:
    """16 bits in 16 bits where the machine multiplies these; codes of 8 bits in bf16, else fp16, else fp32."""
    halves = [dtype for dtype in HALVES if dtype in target.dtypes]
    if not stored.is_multiplied:
        return stored.widened
    if stored.dtype == "int8":
        return next(iter(halves), "fp32")
    return stored.dtype if stored.dtype in halves else stored.widened
