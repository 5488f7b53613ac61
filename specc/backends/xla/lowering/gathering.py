"""Reading by index."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from specc.backends.xla.lowering.table import Call, Value, lowers


@lowers("Gather")
def _gather(call: Call, x: Value, indices: Value) -> Value:
    axis = call.attribute("axis", 0)
    return _take(call, x, _from_front(call, indices, x.shape[axis]), axis)


@lowers("GatherElements")
def _gather_elements(call: Call, x: Value, indices: Value) -> Value:
    axis = call.attribute("axis", 0)
    return x[along_axis(call, indices, axis, x.shape[axis])]


@lowers("GatherND")
def gather_nd(call: Call, x: Value, indices: Value) -> Value:
    """x[b..., i_1, ..., i_k] for index tuples in the last axis, after `batch_dims` common axes."""
    batch = call.attribute("batch_dims", 0)
    depth = indices.shape[-1]
    sizes = np.asarray(x.shape[batch : batch + depth])
    front = _from_front(call, indices, sizes)
    grid = [_axis_range(n, axis, indices.ndim - 1) for axis, n in enumerate(indices.shape[:batch])]
    return x[(*grid, *(front[..., i] for i in range(depth)))]


@lowers("TopK")
def top_k(call: Call, x: Value, k: Value) -> tuple[Value, Value]:
    """Largest or smallest, sorted; the lower index first among equals."""
    count, axis = int(call.known(k, "k").reshape(())), call.attribute("axis", -1)
    keys = call.xp.asarray(x)
    if call.attribute("largest", 1):
        order = call.xp.flip(call.xp.argsort(call.xp.flip(keys, axis), axis=axis, stable=True), axis)
        order = keys.shape[axis] - 1 - order
    else:
        order = call.xp.argsort(keys, axis=axis, stable=True)
    order = call.xp.take(order, np.arange(count), axis=axis)
    return call.xp.take_along_axis(keys, order, axis=axis), order


def along_axis(call: Call, indices: Value, axis: int, size: int) -> tuple[Any, ...]:
    """The index that reads or writes element [.., indices[..., j, ...], ..] at each place of `indices`."""
    rank = indices.ndim
    index: list[Any] = [_axis_range(n, i, rank) for i, n in enumerate(indices.shape)]
    index[axis % rank] = _from_front(call, indices, size)
    return tuple(index)


def _axis_range(size: int, axis: int, rank: int) -> Value:
    return np.arange(size).reshape([size if i == axis else 1 for i in range(rank)])


def _from_front(call: Call, indices: Value, sizes: Any) -> Value:
    """Indices below 0 count from the end."""
    return call.xp.where(indices < 0, indices + sizes, indices)


def _take(call: Call, x: Value, indices: Value, axis: int) -> Value:
    if call.xp is jnp:
        return jnp.take(x, indices, axis=axis, mode="clip")
    return np.take(x, indices, axis=axis)
