"""The devices that share a program, as JAX has them: one axis, its name the same where a program is loaded."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from specc_runtime.engines.xla_devices import AXIS, Spec, cut_along, partition

AnyMesh = Mesh | AbstractMesh


def abstract_mesh(devices: int) -> AbstractMesh | None:
    """Devices that need not be here; None for one."""
    return AbstractMesh((devices,), (AXIS,)) if devices > 1 else None


def mesh_of(devices: Sequence[Any]) -> Mesh | None:
    """Devices that a compiler has described; None for one."""
    return Mesh(np.asarray(devices), (AXIS,)) if len(devices) > 1 else None


def sharding(spec: Spec, mesh: AnyMesh) -> NamedSharding:
    """How devices hold an argument or a result."""
    return NamedSharding(mesh, partition(spec))


def whole(value: Any, devices: int) -> Any:
    """The same value, whole on every device."""
    mesh = abstract_mesh(devices)
    constrained: Any = jax.lax.with_sharding_constraint
    return value if mesh is None else constrained(value, NamedSharding(mesh, cut_along(None)))
