"""The chips that XLA compiles for without having one."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

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
TPU_COMPILER = "libtpu"


@dataclass(frozen=True)
class Topology:
    """name: libtpu's, of the smallest slice there is of a chip. bounds: chips of a host along three axes."""

    name: str
    bounds: tuple[int, int, int]


_TPUS: Mapping[str, Topology] = {
    "v4": Topology("v4:2x2x1", (2, 2, 1)),
    "v5e": Topology("v5e:1x1", (1, 1, 1)),
    "v5p": Topology("v5p:2x2x1", (2, 2, 1)),
    "v6e": Topology("v6e:1x1", (1, 1, 1)),
    "tpu7x": Topology("tpu7x:2x2x1", (2, 2, 1)),
}


@dataclass(frozen=True)
class Chip:
    """One device to compile for.

    device: JAX's description of it. made_for: what a loader compares with its own, by name, before it trusts an
    executable: the compiler's package and version, jaxlib's, and what the device calls itself.
    """

    device: Any
    made_for: Mapping[str, str]


def chip_of(target: Target) -> Chip | None:
    """The chip of a target; None if no compiler for it is installed here, or it is this machine's own processor.

    Raises BuildError: the compiler is there and does not know the chip.
    """
    if target.kind != "tpu" or importlib.util.find_spec(TPU_COMPILER) is None:
        return None
    if target.architecture not in _TPUS:
        raise BuildError(f"xla: no topology for {target.architecture!r}; known: {', '.join(_TPUS)}")
    from jax.experimental import topologies

    topology = _TPUS[target.architecture]
    try:
        described = topologies.get_topology_desc(
            platform="tpu", topology_name=topology.name, chips_per_host_bounds=topology.bounds
        )
    except Exception as error:  # of the compiler's own kinds
        raise BuildError(f"xla: libtpu refuses {topology.name}: {' '.join(str(error).split())[:300]}") from error
    device: Any = described.devices[0]
    made_for = {name: version(name) for name in ("jaxlib", TPU_COMPILER)} | {"device": str(device.device_kind)}
    return Chip(device, made_for)


def prepare_environment() -> None:
    """Before JAX starts: a compiler is to be used, and no accelerator of this machine."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
