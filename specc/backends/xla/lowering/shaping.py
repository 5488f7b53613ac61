"""Ops that move elements and change none."""

import math

import numpy as np

from specc.backends.xla.lowering.table import Call, Value, axes, lowers
from specc.backends.xla.parts import Packed, plain


@lowers("Reshape")
def reshape(call: Call, x: Value, shape: Value) -> Value:
    """0 keeps a dimension, unless allowzero is set; -1 stands for what is left."""
    sizes = [int(n) for n in call.known(shape, "the shape")]
    if not call.attribute("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = math.prod(x.shape) // rest if rest else 0
    return call.xp.reshape(x, tuple(sizes))


@lowers("Flatten")
def _flatten(call: Call, x: Value) -> Value:
    axis = call.attribute("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return call.xp.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@lowers("Transpose")
def _transpose(call: Call, x: Value) -> Value:
    return call.xp.transpose(x, call.attribute("perm"))


@lowers("Squeeze")
def _squeeze(call: Call, x: Value, which: Value = None) -> Value:
    return call.xp.squeeze(x, None if which is None else axes(call.known(which, "axes"), x.ndim))


@lowers("Unsqueeze")
def _unsqueeze(call: Call, x: Value, which: Value) -> Value:
    known = call.known(which, "axes")
    return call.xp.expand_dims(x, axes(known, x.ndim + known.size))


@lowers("Expand")
def _expand(call: Call, x: Value, shape: Value) -> Value:
    sizes = tuple(int(n) for n in call.known(shape, "the shape"))
    return call.xp.broadcast_to(x, np.broadcast_shapes(x.shape, sizes))


@lowers("Tile")
def _tile(call: Call, x: Value, repeats: Value) -> Value:
    return call.xp.tile(x, tuple(int(n) for n in call.known(repeats, "repeats")))


@lowers("Concat")
def _concat(call: Call, *parts: Value) -> Value:
    return call.xp.concatenate(parts, axis=call.attribute("axis"))


@lowers("Split")
def split(call: Call, x: Value, sizes: Value = None) -> tuple[Value, ...]:
    """By `sizes`, or into as many equal parts as there are outputs, the last one smaller where it must be."""
    axis = call.attribute("axis", 0)
    if isinstance(x, Packed):
        pieces = [piece.shape[axis] for piece in x.pieces]
        if axis == x.axis and (sizes is None or call.known(sizes, "split sizes").tolist() == pieces):
            return x.pieces
        x = plain(x)
    if sizes is None:
        count = call.attribute("num_outputs", len(call.node.outputs))
        each = -(-x.shape[axis] // count)
        ends = [each * i for i in range(1, count)]
    else:
        ends = np.cumsum(call.known(sizes, "split sizes"))[:-1].tolist()
    return tuple(call.xp.split(x, ends, axis=axis))


@lowers("Slice")
def _slice(call: Call, x: Value, starts: Value, ends: Value, which: Value = None, steps: Value = None) -> Value:
    first, last = (call.known(v, "a bound").reshape(-1) for v in (starts, ends))
    along = range(len(first)) if which is None else axes(call.known(which, "axes"), x.ndim)
    strides = np.ones(len(first), np.int64) if steps is None else call.known(steps, "steps")
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(along, first, last, strides, strict=True):
        index[axis] = _bounds(int(start), int(end), int(step), x.shape[axis])
    return x[tuple(index)]


def _bounds(start: int, end: int, step: int, size: int) -> slice:
    """Bounds clamped as ONNX clamps them: one below -size, going backwards, means before the first element."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (min(max(n + size if n < 0 else n, low), high) for n in (start, end))
    return slice(start, None if end < 0 else end, step)


@lowers("Pad")
def pad(call: Call, x: Value, pads: Value, fill: Value = None, which: Value = None) -> Value:
    """Negative pads cut."""
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}[
        call.attribute("mode", "constant")
    ]
    amounts = call.known(pads, "pads").reshape(2, -1)
    along = range(x.ndim) if which is None else axes(call.known(which, "axes"), x.ndim)
    widths = [(0, 0)] * x.ndim
    for axis, before, after in zip(along, *amounts.tolist(), strict=True):
        widths[axis] = before, after
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode != "constant":
        return call.xp.pad(x[cut], grown, mode=mode)
    value = np.zeros((), x.dtype) if fill is None else fill.reshape(())
    return call.xp.pad(x[cut], grown, constant_values=value)
