"""RMS norms on ONNX Runtime."""

from collections.abc import Sequence

import onnx_ir as ir

from specc.core.building import Body
from specc.core.inspection import inputs_of
from specc.legalize.rewriting import rewrites


@rewrites("RMSNormalization", on="ort-cuda")
@rewrites("RMSNormalization", on="ort")
def rms_normalization(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The contrib name of the same op; right after a residual addition, both in one op."""
    x, weight = inputs_of(node)
    epsilon = node.attributes["epsilon"].as_float()
    added = x.producer()
    if added is None or x.is_graph_output() or not _is_residual(added):
        return [body.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon)]
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


def _is_residual(added: ir.Node) -> bool:
    """Whether a node adds two streams of one shape, and no bias: neither side is, or is cast from, an initializer."""
    return added.op_type == "Add" and not any(map(_is_weight, inputs_of(added)))


def _is_weight(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is not None and producer.op_type in ("Cast", "CastLike"):
        return _is_weight(inputs_of(producer)[0])
    return value.is_initializer() or (producer is not None and producer.op_type == "Constant")
