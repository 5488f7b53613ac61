"""Ops that were written otherwise in opset 17, back in that form."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.building import Body
from specc.core.inspection import constant_array, inputs_of, static_shape
from specc.legalize.rewriting import rewrites


@rewrites("ReduceMax", on="migraphx")
@rewrites("ReduceMin", on="migraphx")
def reduction(node: ir.Node, body: Body) -> Sequence[ir.Value] | None:
    """Axes as an attribute."""
    if len(node.inputs) < 2:
        return None
    x, axes = inputs_of(node)
    keepdims = node.attributes.get_int("keepdims", 1)
    return [body.op(node.op_type, x, axes=_constant(axes).tolist(), keepdims=keepdims)]


@rewrites("Pad", on="migraphx")
def pad(node: ir.Node, body: Body) -> Sequence[ir.Value] | None:
    """Pads of every axis."""
    if len(node.inputs) < 4:
        return None
    x, pads, value, axes = node.inputs
    if x is None:
        raise ValueError("Pad without data")
    given = _constant(pads).reshape(2, -1)
    every = np.zeros((2, len(static_shape(x))), np.int64)
    every[:, _constant(axes)] = given
    return [body.op("Pad", x, body.constant(every.reshape(-1)), *([] if value is None else [value]))]


@rewrites("Split", on="migraphx")
def split(node: ir.Node, body: Body) -> Sequence[ir.Value] | None:
    """The sizes of the parts, as a constant: equal ones, the last what is left."""
    if len(node.inputs) > 1:
        return None
    (x,) = inputs_of(node)
    axis, parts = node.attributes["axis"].as_int(), len(node.outputs)
    size = static_shape(x)[axis]
    each = -(-size // parts)
    sizes = body.constant([*[each] * (parts - 1), size - each * (parts - 1)])
    return body.ops("Split", x, sizes, outputs=parts, axis=axis)


@rewrites("CastLike", on="migraphx")
def cast_like(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The dtype by its number."""
    x, like = inputs_of(node)
    return [body.op("Cast", x, to=like.dtype)]


def _constant(value: ir.Value | None) -> NDArray[np.int64]:
    array = constant_array(value)
    if array is None:
        raise ValueError(f"'{None if value is None else value.name}' is no constant; flatten the graph first")
    return array.astype(np.int64)
