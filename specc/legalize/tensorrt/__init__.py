"""What TensorRT's ONNX parser reads and its compiler builds: standard ops, attention in 16 bits."""

from specc.legalize import thresholds
from specc.legalize.tensorrt import linear

__all__ = ["OPS", "linear", "thresholds"]

_STANDARD = """Abs Add And ArgMax Attention Cast CastLike Concat Constant CumSum DequantizeLinear Div Equal Exp Expand
Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual MatMul Max Min Mod Mul Neg Not Or Pad
QuantizeLinear Range ReduceMax ReduceMin ReduceSum Relu Reshape RMSNormalization RotaryEmbedding ScatterElements
Shape Sigmoid Slice Split Squeeze Sub TensorScatter Transpose Unsqueeze Where""".split()

OPS = frozenset(("", op) for op in _STANDARD)
