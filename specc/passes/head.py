"""Where a decoder's graph ends: the linear layer that makes the logits."""

import onnx_ir as ir

from specc.core import DOMAIN
from specc.core.functions.linear import LINEAR

TABLE, HEAD = "embedding", "head"  # precision parts; a table that is also the head serves both


def logits_of(model: ir.Model) -> ir.Value:
    """The graph's output `logits`."""
    found = next((v for v in model.graph.outputs if v.name == "logits"), None)
    if found is None:
        raise ValueError(f"'{model.graph.name}' has no output 'logits'")
    return found


def head_rows(model: ir.Model) -> int:
    """Columns of the logits."""
    shape = logits_of(model).shape
    if shape is None or not isinstance(shape[-1], int):
        raise ValueError(f"the logits of '{model.graph.name}' have no known number of columns: {shape}")
    return shape[-1]


def head_of(model: ir.Model) -> ir.Node:
    """The `linear` call that makes the logits. Must hold: the head is not quantised yet."""
    node = logits_of(model).producer()
    if node is None or (node.domain, node.op_type) != (DOMAIN, LINEAR):
        made_by = "an input" if node is None else f"{node.domain}.{node.op_type}"
        raise ValueError(f"the logits of '{model.graph.name}' come from {made_by}, not from {DOMAIN}.{LINEAR}")
    return node


def drop_unused(graph: ir.Graph) -> None:
    """Remove the initializers that no node reads any more."""
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
