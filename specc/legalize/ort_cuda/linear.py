"""Linear layers on ONNX Runtime's CUDA provider: 16 bits are multiplied in 16 bits, 8-bit codes by MatMulNBits."""

from collections.abc import Sequence

import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.inspection import inputs_of
from specc.legalize.ort.linear import MICROSOFT, blocks
from specc.legalize.rewriting import rewrites


@rewrites(LINEAR, on="ort-cuda")
def linear(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMul with a transposed right side, in the dtype of the weight."""
    x, weight = inputs_of(node)
    y = body.op("FusedMatMul", body.op("CastLike", x, weight), weight, domain=MICROSOFT, transB=1)
    return [body.op("CastLike", y, x)]


@rewrites(LINEAR_Q8, on="ort-cuda")
def linear_q8(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """MatMulNBits in the dtype of the scales: the codes seen as `[N, K / block, block]`."""
    codes, scales, sizes = blocks(node)
    x = inputs_of(node)[0]
    y = body.op("MatMulNBits", body.op("CastLike", x, scales), codes, scales, domain=MICROSOFT, **sizes)
    return [body.op("CastLike", y, x)]
