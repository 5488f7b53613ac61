"""The chips that XLA compiles for without having one."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from specc.backends.xla.cuda_description import cuda_description
from specc.backends.xla.hardware import Hardware, hardware_of
from specc.backends.xla.machine import platform_of
from specc.errors import BuildError
from specc.targets import Target

# What keeps libtpu from looking for a TPU and from saying so, and JAX from starting one; read when JAX starts.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "none",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_STDERR_LOG_LEVEL": "3",
}
_AXES = 3  # of the chips of a host


@dataclass(frozen=True)
class Compiler:
    """What compiles for a platform without a device of it.

    module: found where it is installed. packages: an executable is only for the versions that made it. extra: of specc,
    that installs it. identity: what a device says of itself that an executable is for.
    """

    module: str
    packages: tuple[str, ...]
    extra: str
    identity: str

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


COMPILERS = {
    "tpu": Compiler("libtpu", ("jaxlib", "libtpu"), "tpu", "device"),
    "cuda": Compiler("jax_cuda13_plugin", ("jaxlib", "jax-cuda13-pjrt"), "cuda-aot", "compute_capability"),
}


@dataclass(frozen=True)
class Chip:
    """What to compile for.

    platform: JAX's name for its kind. devices: JAX's descriptions of those that run a program together. made_for: what
    a loader compares with its own, by name, before it trusts an executable: versions of the compiler's packages, and
    what a device says of itself.
    """

    platform: str
    devices: tuple[Any, ...]
    made_for: Mapping[str, str]


def chip_of(target: Target) -> Chip | None:
    """The chip of a target; None if no compiler for it is installed here, or the target's file does not describe it.

    Raises BuildError: the compiler is there and does not know the chip.
    """
    platform, hardware = platform_of(target), hardware_of(target)
    compiler = COMPILERS.get(platform)
    if compiler is None or not compiler.is_installed():
        return None
    if platform == "tpu":
        described = _tpu(target, hardware)
    elif hardware.gpu is None:
        return None
    else:
        described = _described(
            "cuda", topology=f"1x1x{target.devices}", target_config=cuda_description(target, hardware.gpu)
        )
    devices: tuple[Any, ...] = tuple(described.devices[: target.devices])
    versions = {name: version(name) for name in compiler.packages}
    return Chip(platform, devices, versions | {compiler.identity: _identity(devices[0], compiler.identity)})


def _identity(device: Any, key: str) -> str:
    """What a device says of itself, where the engine that loads an executable will look for it."""
    from specc_runtime.engines.xla_executable import DEVICE  # imports JAX

    return str(getattr(device, DEVICE[key]))


def _tpu(target: Target, hardware: Hardware) -> Any:
    if not target.slices:
        raise BuildError(f"xla: the target file of {target.name} has no 'slices'; add the smallest that libtpu knows")
    chips = target.mesh or target.slices[0]
    sizes = [int(size) for size in chips.split("x")]
    bounds = (*sizes, *[1] * (_AXES - len(sizes)))
    name, config = f"{target.architecture}:{chips}", hardware.chip_config
    return _described("tpu", topology_name=name, chips_per_host_bounds=bounds, chip_config_name=config)


def _described(platform: str, **asked: Any) -> Any:
    from jax.experimental import topologies

    try:
        return topologies.get_topology_desc(platform=platform, **asked)
    except Exception as error:  # of the compiler's own kinds
        name = asked.get("topology_name", platform)
        raise BuildError(f"xla: the compiler refuses {name}: {' '.join(str(error).split())[:300]}") from error


def missing_compiler(target: Target) -> str | None:
    """What installs the compiler for a target, if it is missing here."""
    compiler = COMPILERS.get(platform_of(target))
    return f"pip install 'specc[{compiler.extra}]'" if compiler is not None and not compiler.is_installed() else None


def portable_because(target: Target) -> str | None:
    """Why programs for an accelerator were not compiled here, and what to do."""
    if target.kind == "cpu":
        return None
    way_out = missing_compiler(target)
    reason = "it can't be done without one" if way_out is None else f"to do it here: {way_out}"
    return f"programs for {target.name} are compiled where they are loaded; {reason}"


def prepare_environment() -> None:
    """Before JAX starts: a compiler is to be used, and no accelerator of this machine."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
