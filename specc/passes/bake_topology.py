"""Make the topology a constant: a static mask instead of an input."""

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.topology import Topology


def bake_topology(model: ir.Model, topology: Topology | None) -> ir.Model:
    """Inputs `depths` and `block` become constants of the graph.

    topology None: a chain of however many tokens are fed, derived from the width of `tokens`.
    Must hold: a given topology is as wide as `tokens`.
    """
    graph = model.graph
    inputs = {v.name: v for v in graph.inputs}
    body = Body()
    if topology is None:
        depths, block = _open_chain(body, inputs["tokens"])
    else:
        width = inputs["tokens"].shape[1]
        if width != topology.width:
            raise ValueError(f"topology of {topology.width} rows for a graph fed {width} tokens")
        depths = body.constant(topology.depths())
        block = body.constant(topology.block(), np.bool_)
    for name, constant in (("depths", depths), ("block", block)):
        inputs[name].replace_all_uses_with(constant)
        graph.inputs.remove(inputs[name])
    first = next(iter(graph), None)
    graph.insert_before(first, body.nodes)
    return model


def _open_chain(body: Body, tokens: ir.Value) -> tuple[ir.Value, ir.Value]:
    width = body.op("Squeeze", body.op("Shape", tokens, start=1, end=2), body.constant([0]))
    depths = body.op("Range", body.constant(0), width, body.constant(1))
    row = body.op("Unsqueeze", depths, body.constant([1]))
    return depths, body.op("LessOrEqual", depths, row)
