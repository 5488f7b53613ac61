"""RMS norms, taken apart: MIGraphX refuses the op and fuses its parts into one reduction."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.inspection import inputs_of
from specc.legalize.rewriting import rewrites


@rewrites("RMSNormalization", on="migraphx")
def rms_normalization(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """In fp32, as the stream is."""
    x, weight = inputs_of(node)
    return [rms_norm(body, x, weight, node.attributes["epsilon"].as_float())]


def rms_norm(body: Body, x: ir.Value, weight: ir.Value, epsilon: float) -> ir.Value:
    """x / sqrt(mean(x^2) + epsilon) * weight, over the last axis."""
    mean = body.op("ReduceMean", body.op("Mul", x, x), axes=[-1])
    root = body.op("Sqrt", body.op("Add", mean, body.constant(epsilon, np.float32)))
    return body.op("Mul", body.op("Div", x, root), weight)
