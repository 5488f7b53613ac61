"""MIGraphX's dialect: standard ops of opset 17 and nothing else, one body for every device.

Its parser reads names only, so what is left here is what its source was seen to take and to compute right.
"""

from specc.legalize import row_scatter, thresholds
from specc.legalize.migraphx import attention, linear, norm, opset

__all__ = ["IN_PLACE_OPS", "OPS", "OPSET", "attention", "linear", "norm", "opset", "row_scatter", "thresholds"]

OPSET = 17
IN_PLACE_OPS = frozenset({("com.microsoft", "GroupQueryAttention")})  # of one position
OPS = frozenset(
    ("", op)
    for op in """Abs Add And ArgMax Cast Clip Concat Constant CumSum Div Equal Exp Expand Gather GatherElements GatherND
    Greater GreaterOrEqual Less LessOrEqual MatMul MatMulInteger Max Min Mul Neg Not Or Pad ReduceMax ReduceMean
    ReduceMin ReduceSum Relu Reshape Round ScatterElements ScatterND Sigmoid Slice Softmax Split Sqrt Squeeze Sub
    Transpose Unsqueeze Where""".split()
)
