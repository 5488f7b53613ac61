"""Executables for a chip that is not here, and what its compiler says of them."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from specc.backends.xla.mesh import mesh_of
from specc.backends.xla.program import FlatProgram
from specc.backends.xla.topologies import Chip
from specc.errors import BuildError, OptionError

_OPTION = re.compile(r"(No such compile option|Failed to parse '.*' into flag|While setting option).*")
_SIZES = ("argument", "output", "alias", "temp")
_MEMORY = re.compile(r"Used (\S+) of (\S+) hbm", re.IGNORECASE)


@dataclass(frozen=True)
class Built:
    """An executable, its sizes in bytes by the compiler's own account, and the seconds it took to make."""

    executable: bytes
    sizes: Mapping[str, int]
    seconds: float


def build(name: str, flat: FlatProgram, chip: Chip, options: Mapping[str, str] = MappingProxyType({})) -> Built:
    """Compile a program for `chip`, with options of the compiler by name.

    Raises OptionError: an option the compiler does not know or can't read. BuildError: the program does not fit the
    chip's memory, or the compiler fails.
    """
    mesh = mesh_of(chip.devices)
    arguments = flat.arguments(mesh)
    if mesh is None:
        arguments = [_placed(argument, SingleDeviceSharding(chip.devices[0])) for argument in arguments]
    started = time.monotonic()
    try:
        lowered = flat.jitted(mesh).trace(*arguments).lower(lowering_platforms=(chip.platform,))
        compiled = lowered.compile(compiler_options=dict(options))
    except Exception as error:  # of the compiler's own kinds
        if wrong := _OPTION.search(str(error)):
            raise OptionError(f"xla-option: XLA's compiler refuses it: {wrong[0]}") from error
        raise BuildError(_refusal(name, str(error))) from error
    memory = compiled.memory_analysis()
    sizes = {size: int(getattr(memory, f"{size}_size_in_bytes")) for size in _SIZES}
    content = bytes(compiled.runtime_executable().serialize())
    return Built(content, sizes | {"code": int(memory.generated_code_size_in_bytes)}, time.monotonic() - started)


def _placed(argument: Any, sharding: SingleDeviceSharding) -> Any:
    made: Any = jax.ShapeDtypeStruct
    return made(argument.shape, argument.dtype, sharding=sharding)


def _refusal(name: str, message: str) -> str:
    """What the compiler said, and what would help."""
    text = " ".join(message.split())
    if "RESOURCE_EXHAUSTED" not in text:
        return f"{name}: XLA's compiler fails: {text[:400]}"
    used = _MEMORY.search(text)
    told = f"it needs {used[1]} of {used[2]}" if used else text[:400]
    return (
        f"{name} does not fit the target's memory: {told}; store more in 8 bits (--precision int8), shorten --context, "
        "or take a target with more memory"
    )
