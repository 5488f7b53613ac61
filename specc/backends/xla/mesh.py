"""The devices that share a program, as JAX has them: one axis, its name the same where a program is loaded."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from specc_runtime.manifest import StateSpec, TensorSpec, WeightSpec

AXIS = "devices"

Spec = TensorSpec | StateSpec | WeightSpec

AnyMesh = Mesh | AbstractMesh

_axes: Any = PartitionSpec  # its constructor has no types


def abstract_mesh(devices: int) -> AbstractMesh | None:
    """Devices that need not be here; None for one."""
    return AbstractMesh((devices,), (AXIS,)) if devices > 1 else None


def mesh_of(devices: Sequence[Any]) -> Mesh | None:
    """Devices that a compiler has described; None for one."""
    return Mesh(np.asarray(devices), (AXIS,)) if len(devices) > 1 else None


def sharding(spec: Spec, mesh: AnyMesh) -> NamedSharding:
    """How devices hold an argument or a result: what is fed and given is whole on each."""
    cut = None if isinstance(spec, TensorSpec) else spec.cut
    return NamedSharding(mesh, _axes() if cut is None else _axes(*[None] * cut, AXIS))


def whole(value: Any, devices: int) -> Any:
    """The same value, whole on every device."""
    mesh = abstract_mesh(devices)
    constrained: Any = jax.lax.with_sharding_constraint
    return value if mesh is None else constrained(value, NamedSharding(mesh, _axes()))
