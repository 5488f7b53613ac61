"""Make the rows whose logits are asked for a constant."""

from collections.abc import Sequence

import onnx_ir as ir

from specc.core.building import Body


def bake_rows(model: ir.Model, rows: Sequence[int]) -> ir.Model:
    """Input `rows` becomes a constant of the graph. Must hold: each is a row of `tokens`."""
    graph = model.graph
    (asked,) = (v for v in graph.inputs if v.name == "rows")
    body = Body()
    asked.replace_all_uses_with(body.constant(rows))
    graph.inputs.remove(asked)
    graph.insert_before(graph[0], body.nodes)
    return model
