"""Linear layers of 8 or 4 bits for TensorRT, which wants signed codes and positive scales."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.building import Body
from specc.core.functions.linear import (
    LARGEST_CODE,
    LINEAR_Q8,
    LINEAR_W8A8,
    SIGNED_ZERO,
    SMALLEST_STEP,
    UNSIGNED_ZERO,
)
from specc.core.initializers import lazy_initializer, part_of
from specc.core.inspection import inputs_of, static_shape, tensor_of
from specc.legalize.rewriting import rewrites


@rewrites(LINEAR_Q8, on="tensorrt")
def linear_q8(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """Weight-only: `DequantizeLinear` of signed codes, the product in the dtype of the scale.

    One scale a row goes in as a vector along axis 0, scales of blocks as they are.
    """
    x = inputs_of(node)[0]
    weight, like = _dequantized(node, body)
    y = body.op("MatMul", body.op("CastLike", x, like), body.op("Transpose", weight, perm=[1, 0]))
    return [body.op("CastLike", y, x)]


@rewrites(LINEAR_W8A8, on="tensorrt")
def linear_w8a8(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The same of x in 255 steps, their size computed: both sides of the product are 8-bit integers."""
    weight, like = _dequantized(node, body)
    x = body.op("CastLike", inputs_of(node)[0], like)
    most, least = (
        body.op("CastLike", body.constant(number, np.float32), like) for number in (LARGEST_CODE, SMALLEST_STEP)
    )
    step = body.op("Max", body.op("Div", body.op("ReduceMax", body.op("Abs", x), keepdims=0), most), least)
    steps = body.op("QuantizeLinear", x, step, body.constant(SIGNED_ZERO, np.int8))
    y = body.op("MatMul", body.op("DequantizeLinear", steps, step), body.op("Transpose", weight, perm=[1, 0]))
    return [body.op("CastLike", y, inputs_of(node)[0])]


def _dequantized(node: ir.Node, body: Body) -> tuple[ir.Value, ir.Value]:
    """The weight of a call, and its scale, in whose dtype the product is to be."""
    _, codes, scale = inputs_of(node)
    block, (rows, columns) = node.attributes["block_size"].as_int(), static_shape(codes)
    signed = codes
    if codes.dtype == ir.DataType.UINT8:
        signed = _made_of(codes, "signed", np.dtype(np.int8), (rows, columns), _signed)
    by_row = block == columns
    shape = (rows,) if by_row else (rows, columns // block)
    like = tensor_of(scale).dtype.numpy()
    positive = _made_of(scale, "positive", like, shape, lambda array: np.where(array == 0, like.type(1), array))
    axis, blocks = (0, None) if by_row else (1, block)
    return body.op("DequantizeLinear", signed, positive, axis=axis, block_size=blocks), positive


def _signed(codes: NDArray[np.uint8]) -> NDArray[np.int8]:
    return (codes.astype(np.int16) - UNSIGNED_ZERO).astype(np.int8)


def _made_of(
    source: ir.Value,
    suffix: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    read: Callable[[NDArray[Any]], NDArray[Any]],
) -> ir.Value:
    """An initializer of the same graph that is computed from `source`; the same one for every call."""
    graph = source.graph
    if graph is None:
        raise ValueError(f"'{source.name}' belongs to no graph")
    tensor = tensor_of(source)
    value = lazy_initializer(
        f"{source.name}.{suffix}", part_of(source), shape, dtype, lambda: read(tensor.numpy()).reshape(shape)
    )
    return graph.initializers.setdefault(str(value.name), value)
