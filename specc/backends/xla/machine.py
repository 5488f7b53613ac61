"""What the lowering must know of the machine that programs are compiled for."""

from dataclasses import dataclass

from specc.targets import Target


@dataclass(frozen=True)
class Machine:
    """platform: JAX's name for the kind of device. matrix_dtypes: 16-bit floats its matrix units multiply."""

    platform: str
    matrix_dtypes: frozenset[str] = frozenset()


CPU = Machine("cpu")

_PLATFORMS = {"cpu": "cpu", "tpu": "tpu", "gpu": "cuda"}
_NAMES = {"bf16": "bfloat16", "fp16": "float16"}


def machine_of(target: Target) -> Machine:
    """The machine that a target file describes."""
    return Machine(
        platform=_PLATFORMS[target.kind],
        matrix_dtypes=frozenset(_NAMES[dtype] for dtype in target.dtypes if dtype in _NAMES),
    )
