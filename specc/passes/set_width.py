"""Fix the open sizes of a decoder's graph: tokens fed and logits asked for."""

import onnx_ir as ir

WIDTH, ROWS = "S", "R"


def set_width(model: ir.Model, width: int, rows: int) -> ir.Model:
    """A copy with `S` = width tokens and `R` = rows of logits in the shape of every input, output and value.

    For backends that compile static graphs. Sizes that are fixed already stay as they are.
    """
    sizes = {WIDTH: width, ROWS: rows}
    model = model.clone()
    graph = model.graph
    for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
        if value.shape is not None:
            value.shape = ir.Shape([d if isinstance(d, int) else sizes.get(str(d.value), d) for d in value.shape])
    return model
