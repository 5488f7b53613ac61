"""Linear layers on ONNX Runtime: the weight stays in `[out, in]` layout, so core graph and program share its bytes."""

import math
from collections.abc import Sequence

import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.initializers import reshape
from specc.core.inspection import inputs_of, static_shape
from specc.legalize.rewriting import rewrites

MICROSOFT = "com.microsoft"
INT8_ACTIVATIONS = 4  # accuracy_level: activations quantised per row and block, so rows stay independent


@rewrites(LINEAR, on="ort")
def linear(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMul with a transposed right side, which is prepacked at load."""
    x, weight = inputs_of(node)
    if weight.dtype != ir.DataType.FLOAT:
        weight = body.op("Cast", weight, to=ir.DataType.FLOAT)
    return [body.op("FusedMatMul", x, weight, domain=MICROSOFT, transB=1)]


@rewrites(LINEAR_Q8, on="ort")
def linear_q8(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMulNBits: the same codes seen as `[N, K / block, block]`, which another call may have done already."""
    codes, scales, sizes = blocks(node)
    x = inputs_of(node)[0]
    y = body.op("MatMulNBits", x, codes, scales, domain=MICROSOFT, accuracy_level=INT8_ACTIVATIONS, **sizes)
    return [y]


def blocks(node: ir.Node) -> tuple[ir.Value, ir.Value, dict[str, int]]:
    """Codes `[N, K / block, block]` and scales `[N * K / block]` of a `linear_q8`, and MatMulNBits' attributes."""
    _, codes, scale = inputs_of(node)
    block = node.attributes["block_size"].as_int()
    outputs, *inner = static_shape(codes)
    inputs = math.prod(inner)
    sizes = {"K": inputs, "N": outputs, "bits": 8, "block_size": block}
    return reshape(codes, (outputs, inputs // block, block)), reshape(scale, (outputs * (inputs // block),)), sizes
