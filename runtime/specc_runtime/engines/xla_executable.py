"""Executables that were compiled ahead of time: used where they were made for this very machine, never otherwise."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from specc_runtime.engines.xla_devices import Devices, Spec, sizes
from specc_runtime.manifest import Program

# What a device says of itself, by the executable's key for it; every other key is a package, its version the value.
DEVICE = {"device": "device_kind", "compute_capability": "compute_capability"}

Run = Callable[..., Sequence[jax.Array]]


def is_made_for_here(made_for: Mapping[str, str]) -> bool:
    """Whether the first device here and the packages installed are those an executable names."""
    return bool(made_for) and all(_here(name) == value for name, value in made_for.items())


def load_executable(path: Path, devices: Devices, program: Program) -> Run:
    """The executable of `program` in a file, its arguments and results flat. Raises what the device's driver raises."""
    from jaxlib import xla_client  # the only way to one that is not wrapped in pickle

    device: Any = devices.all[0]
    listed = xla_client.DeviceList(tuple(devices.all))
    loaded: Any = device.client.deserialize_executable(path.read_bytes(), executable_devices=listed)
    return flat_run(loaded, device) if len(devices.all) == 1 else _shared_run(loaded, devices, program)


def flat_run(loaded: Any, device: Any) -> Run:
    """A driver's executable as a function of flat arguments, which it takes to `device`."""

    def run(*arguments: Any) -> Sequence[jax.Array]:
        placed = [jax.device_put(argument, device) for argument in arguments]
        made = loaded.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [shards[0] for shards in made]

    return run


def _shared_run(loaded: Any, devices: Devices, program: Program) -> Run:
    """The same on several devices, each of which takes and gives its share."""
    fed: list[Spec] = [*program.inputs, *program.state, *program.weights]
    left: list[Spec] = [*program.outputs, *program.state]
    taken = [devices.holding(spec) for spec in fed]
    given = [(sizes(spec), devices.holding(spec)) for spec in left]

    def run(*arguments: Any) -> Sequence[jax.Array]:
        placed = [jax.device_put(argument, holding) for argument, holding in zip(arguments, taken, strict=True)]
        made = loaded.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [
            jax.make_array_from_single_device_arrays(shape, holding, shards)
            for (shape, holding), shards in zip(given, made, strict=True)
        ]

    return run


def _here(name: str) -> str | None:
    if name in DEVICE:
        return str(getattr(jax.devices()[0], DEVICE[name], None))
    try:
        return version(name)
    except PackageNotFoundError:
        return None
