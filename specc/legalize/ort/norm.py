"""RMS norms on ONNX Runtime."""

from collections.abc import Sequence

import onnx_ir as ir

from specc.core.building import Body
from specc.legalize.rewriting import rewrites


@rewrites("RMSNormalization", on="ort")
def rms_normalization(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The contrib name of the same op; right after a residual addition, both in one op."""
    x, weight = node.inputs
    epsilon = node.attributes["epsilon"].as_float()
    added = x.producer()
    if added is not None and added.op_type == "Add" and not x.is_graph_output() and _same_shape(*added.inputs):
        normed, _, _, total = body.ops(
            "SkipSimplifiedLayerNormalization",
            *added.inputs,
            weight,
            outputs=4,
            domain="com.microsoft",
            epsilon=epsilon,
        )
        x.replace_all_uses_with(total)
        return [normed]
    return [body.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon)]


def _same_shape(a: ir.Value | None, b: ir.Value | None) -> bool:
    """A residual addition: neither side is broadcast (a bias is an initializer)."""
    return a is not None and b is not None and not a.is_initializer() and not b.is_initializer()
