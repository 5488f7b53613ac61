"""ONNX Runtime's own ops on NVIDIA GPUs: what its CUDA kernels have, products in the dtype of their weights."""

from specc.legalize.ort import attention, norm
from specc.legalize.ort_cuda import linear

__all__ = ["OPS", "attention", "linear", "norm"]

_STANDARD = """Add And ArgMax Cast CastLike Clip Concat Constant CumSum Div Equal Exp Expand Gather GatherElements
GatherND Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Neg Not Or Pad Range ReduceMax ReduceMin ReduceSum
Relu Reshape RotaryEmbedding ScatterElements Shape Sigmoid Slice Softmax Split Squeeze Sub TensorScatter TopK Transpose
Unsqueeze Where""".split()
_CONTRIB = "FusedMatMul GroupQueryAttention MatMulNBits SkipSimplifiedLayerNormalization".split()

OPS = frozenset(
    [("", op) for op in (*_STANDARD, "SimplifiedLayerNormalization")] + [("com.microsoft", op) for op in _CONTRIB]
)
