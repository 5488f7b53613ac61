"""Linear layers on ONNX Runtime's CUDA provider: 16 bits are multiplied in 16 bits, 8-bit codes by MatMulNBits."""

import math
from collections.abc import Sequence

import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.initializers import reshape
from specc.core.inspection import inputs_of, static_shape
from specc.legalize.rewriting import rewrites

MICROSOFT = "com.microsoft"


@rewrites(LINEAR, on="ort-cuda")
def linear(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMul with a transposed right side, in the dtype of the weight."""
    x, weight = inputs_of(node)
    y = body.op("FusedMatMul", body.op("CastLike", x, weight), weight, domain=MICROSOFT, transB=1)
    return [body.op("CastLike", y, x)]


@rewrites(LINEAR_Q8, on="ort-cuda")
def linear_q8(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMulNBits in the dtype of the scales: the codes seen as `[N, K / block, block]`."""
    x, codes, scale = inputs_of(node)
    block = node.attributes["block_size"].as_int()
    outputs, *inner = static_shape(codes)
    inputs = math.prod(inner)
    scales = reshape(scale, (outputs * (inputs // block),))
    y = body.op(
        "MatMulNBits", body.op("CastLike", x, scales), reshape(codes, (outputs, inputs // block, block)), scales,
        domain=MICROSOFT, K=inputs, N=outputs, bits=8, block_size=block,
    )  # fmt: skip
    return [body.op("CastLike", y, x)]
