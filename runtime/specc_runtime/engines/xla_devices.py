"""The devices that run a program together, and how they hold what it takes."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from specc_runtime.manifest import StateSpec, TensorSpec, WeightSpec

AXIS = "devices"  # of the mesh that exports name

Spec = TensorSpec | StateSpec | WeightSpec
Holding = NamedSharding | SingleDeviceSharding

_axes: Any = PartitionSpec  # its constructor has no types


def cut_along(axis: int | None) -> PartitionSpec:
    """An array cut along `axis`; None: whole on each device."""
    made: PartitionSpec = _axes() if axis is None else _axes(*[None] * axis, AXIS)
    return made


def partition(spec: Spec) -> PartitionSpec:
    """How an argument or a result is cut; what is fed and given is whole on each device."""
    return cut_along(None if isinstance(spec, TensorSpec) else spec.cut)


def sizes(spec: Spec) -> tuple[int, ...]:
    """The shape, all of whose axes are numbers in programs of this backend."""
    return tuple(int(size) for size in spec.shape)


class Devices:
    """The first `count` devices here."""

    def __init__(self, count: int) -> None:
        self.all = jax.devices()[:count]
        self._mesh = Mesh(np.asarray(self.all), (AXIS,))

    def holding(self, spec: Spec) -> Holding:
        """Of one argument or result: cut along an axis, or whole on each."""
        if len(self.all) == 1:
            return SingleDeviceSharding(self.all[0])
        return NamedSharding(self._mesh, partition(spec))

    def described(self, spec: Spec) -> Any:
        """Shape, dtype and holding, for JAX to compile for."""
        made: Any = jax.ShapeDtypeStruct
        return made(sizes(spec), jax.numpy.dtype(spec.dtype), sharding=self.holding(spec))
