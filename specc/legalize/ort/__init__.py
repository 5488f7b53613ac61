"""ONNX Runtime's own ops: what its CPU kernels run fastest."""

from specc.legalize.ort import attention, linear, norm

__all__ = ["OPS", "attention", "linear", "norm"]

_STANDARD = """Add And Cast CastLike Clip Concat Constant CumSum Div Equal Expand Gather Greater GreaterOrEqual Less
LessOrEqual Max Min Mul Not Or Range ReduceMax ReduceSum Reshape RotaryEmbedding Shape Sigmoid Slice Softmax Split
Squeeze Sub Transpose Unsqueeze Where ArgMax Exp""".split()
_CONTRIB = "FusedMatMul GroupQueryAttention MatMulNBits SkipSimplifiedLayerNormalization".split()

OPS = frozenset(
    [("", op) for op in (*_STANDARD, "SimplifiedLayerNormalization")] + [("com.microsoft", op) for op in _CONTRIB]
)
