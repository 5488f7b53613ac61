"""Writing by index."""

import jax.numpy as jnp
from jax import lax

from specc.backends.xla.lowering.gathering import along_axis
from specc.backends.xla.lowering.table import Call, Value, lowers
from specc.backends.xla.parts import Part

_REDUCTIONS = {"add": "add", "mul": "multiply", "max": "max", "min": "min"}


@lowers("ScatterElements")
def _scatter_elements(call: Call, x: Value, indices: Value, updates: Value) -> Value:
    axis, reduction = call.attribute("axis", 0), call.attribute("reduction", "none")
    place = jnp.asarray(x).at[along_axis(call, indices, axis, x.shape[axis])]
    written: Value = place.set(updates) if reduction == "none" else getattr(place, _REDUCTIONS[reduction])(updates)
    return written


@lowers("TensorScatter")
def tensor_scatter(call: Call, past: Value, update: Value, position: Value = None) -> Value:
    """Rows `position[b] ...` of axis `axis` written anew, in place where the program owns the buffer.

    past may be a layer's part of a buffer stacked over layers: then only the new rows of the whole buffer are written.
    """
    axis = call.attribute("axis", -2) % update.ndim
    if not update.shape[axis]:
        return past
    starts = jnp.zeros(update.shape[0], jnp.int32) if position is None else position
    if call.attribute("mode", "linear") == "circular":
        return _circular(past, update, starts, axis)
    for row in range(update.shape[0]):
        offset = [0] * update.ndim
        corner = [*offset[:axis], starts[row], *offset[axis + 1 :]]
        corner[0] = row
        if isinstance(past, Part):
            past = past.written(update[row : row + 1], corner)
        else:
            past = lax.dynamic_update_slice(past, update[row : row + 1], corner)
    return past


def _circular(past: Value, update: Value, starts: Value, axis: int) -> Value:
    """Rows beyond the end go on from the start."""
    size = past.shape[axis]
    rows = (starts[:, None] + jnp.arange(update.shape[axis])) % size
    moved = jnp.moveaxis(jnp.asarray(past), axis, 1).at[jnp.arange(len(starts))[:, None], rows]
    return jnp.moveaxis(moved.set(jnp.moveaxis(update, axis, 1)), 1, axis)
