"""Values that are there from the start, and shapes, which are known while tracing."""

import jax.numpy as jnp
import numpy as np

from specc.backends.xla.lowering.table import Call, Value, lowers

LONGEST_CONSTANT = 1024  # elements
_SCALARS = {"value_float": np.float32, "value_int": np.int64, "value_floats": np.float32, "value_ints": np.int64}


@lowers("Constant")
def _constant(call: Call) -> Value:
    tensor = call.attribute("value")
    if tensor is not None:
        return tensor.numpy()
    name = next(name for name in _SCALARS if name in call.attributes)
    return np.asarray(call.attribute(name), _SCALARS[name])


@lowers("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Value) -> Value:
    fill = call.attribute("value")
    value = np.zeros(1, np.float32) if fill is None else fill.numpy()
    return call.xp.full(tuple(call.known(shape, "the shape")), value[0], value.dtype)


@lowers("Range")
def arange(call: Call, start: Value, limit: Value, delta: Value) -> Value:
    """A long one is made by the program: as a constant it would fill the program's text."""
    first, last, step = (call.known(v, "a bound").reshape(()) for v in (start, limit, delta))
    values = np.arange(first.item(), last.item(), step.item(), dtype=first.dtype)
    if len(values) <= LONGEST_CONSTANT or step != 1 or values.dtype.kind != "i":
        return values
    return jnp.arange(len(values), dtype=np.int32) + np.int32(first)


@lowers("Shape")
def _shape(call: Call, x: Value) -> Value:
    return np.asarray(x.shape[call.attribute("start", 0) : call.attribute("end")], np.int64)


@lowers("Size")
def _size(call: Call, x: Value) -> Value:
    return np.asarray(x.size, np.int64)
