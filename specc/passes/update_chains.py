"""Caches that a graph updates more than once: the updates of each, one after the other."""

from collections.abc import Iterator
from itertools import pairwise

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.core.functions.features import FEATURE_ROWS
from specc.core.inspection import inputs_of, static_shape

SCATTER = "TensorScatter"
_FEATURE_AXES = 3  # of a feature buffer; caches of keys and values have four


def inline_writers(model: ir.Model) -> None:
    """Inline every function that writes a cache, and those that call one."""
    writers: set[ir.OperatorIdentifier] = set()
    size = -1
    while size < len(writers):
        size = len(writers)
        for key, function in model.functions.items():
            if any(node.op_type == SCATTER or node.op_identifier() in writers for node in function):
                writers.add(key)
    ir_passes.InlinePass(criteria=lambda function: function.identifier() in writers)(model)


def chains(graph: ir.Graph) -> Iterator[list[ir.Node]]:
    """For each cache the nodes that write it, one after the other."""
    for cache in graph.inputs:
        chain: list[ir.Node] = []
        written = cache
        while following := [use.node for use in written.uses() if use.node.op_type == SCATTER and use.idx == 0]:
            chain.append(following[0])
            written = following[0].outputs[0]
        yield chain


def holds_features(chain: list[ir.Node]) -> bool:
    """Whether what a chain updates is a feature buffer."""
    return len(static_shape(inputs_of(chain[0])[0])) == _FEATURE_AXES


def hand_on(graph: ir.Graph, chain: list[ir.Node]) -> None:
    """Let the step after each update of a feature buffer read its row, and the last update write the buffer itself."""
    buffer = inputs_of(chain[0])[0]
    for node, following in pairwise(chain):
        written, row = node.outputs[0], inputs_of(node)[1]
        for use in list(written.uses()):
            if use.node is following:
                following.replace_input_with(0, buffer)
            elif use.node.op_type == FEATURE_ROWS and use.idx == 0:
                use.node.outputs[0].replace_all_uses_with(row)
            else:
                raise ValueError(f"features '{buffer.name}' are read by {use.node.op_type} between their updates")
        if written.is_graph_output():
            graph.outputs.remove(written)
