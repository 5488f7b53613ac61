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


class Devices:
    """The first `count` devices here."""

    def __init__(self, count: int) -> None:
        self.all = jax.devices()[:count]
        self._mesh = Mesh(np.asarray(self.all), (AXIS,))

    def holding(self, spec: Spec) -> Holding:
        """Of one argument or result: cut along an axis, or whole on each."""
        if len(self.all) == 1:
            return SingleDeviceSharding(self.all[0])
        cut = None if isinstance(spec, TensorSpec) else spec.cut
        return NamedSharding(self._mesh, _axes() if cut is None else _axes(*[None] * cut, AXIS))

    def described(self, spec: Spec) -> Any:
        """Shape, dtype and holding, for JAX to compile for."""
        made: Any = jax.ShapeDtypeStruct
        shape = tuple(int(size) for size in spec.shape)
        return made(shape, jax.numpy.dtype(spec.dtype), sharding=self.holding(spec))
