"""ONNX Runtime's own ops on NVIDIA GPUs: those of the CPU, with products in the dtype of their weights."""

from specc.legalize.ort import OPS, attention, norm
from specc.legalize.ort_cuda import linear

__all__ = ["OPS", "attention", "linear", "norm"]
