"""Linear layers: products in the dtype the weight is stored in; 8-bit ones with activations rounded row by row."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.inspection import inputs_of, static_shape
from specc.errors import LegalizeError
from specc.legalize.rewriting import rewrites

LARGEST = 127  # of a symmetric 8-bit code
_SMALLEST_SCALE = np.finfo(np.float32).tiny


@rewrites(LINEAR, on="migraphx")
def linear(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMul over the transposed weight, a constant that is folded when the program is built."""
    x, weight = inputs_of(node)
    if weight.dtype == ir.DataType.FLOAT:
        return [body.op("MatMul", x, _transposed(body, weight))]
    narrow = body.op("MatMul", body.op("Cast", x, to=weight.dtype), _transposed(body, weight))
    return [body.op("Cast", narrow, to=ir.DataType.FLOAT)]


@rewrites(LINEAR_Q8, on="migraphx")
def linear_q8(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMulInteger on symmetric codes: a scale a row of x, found at run time, and one a row of the weight.

    No zero points: with them, and with DynamicQuantizeLinear, MIGraphX computes something else.
    """
    x, codes, scale = inputs_of(node)
    outputs, inputs = static_shape(codes)
    if (block := node.attributes["block_size"].as_int()) != inputs or codes.dtype != ir.DataType.INT8:
        raise LegalizeError(
            f"migraphx: '{codes.name}' has {codes.dtype} codes and a scale for each {block} of {inputs} inputs, "
            "and 8-bit products need signed codes and one scale a row; quantise it with row_scales"
        )
    step, rounded = _rounded_rows(body, x)
    product = body.op("MatMulInteger", rounded, _transposed(body, codes))
    scaled = body.op("Mul", body.op("Cast", product, to=ir.DataType.FLOAT), step)
    return [body.op("Mul", scaled, body.op("Reshape", scale, body.constant([outputs])))]


def _rounded_rows(body: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The step of each row, and the row in steps: int8, its largest magnitude at 127."""
    peak = body.op("ReduceMax", body.op("Abs", x), axes=[-1])
    step = body.op("Div", peak, body.constant(LARGEST, np.float32))
    step = body.op("Max", step, body.constant(_SMALLEST_SCALE, np.float32))
    steps = body.op("Round", body.op("Div", x, step))
    bounds = body.constant(-LARGEST, np.float32), body.constant(LARGEST, np.float32)
    return step, body.op("Cast", body.op("Clip", steps, *bounds), to=ir.DataType.INT8)


def _transposed(body: Body, weight: ir.Value) -> ir.Value:
    return body.op("Transpose", weight, perm=[1, 0])
