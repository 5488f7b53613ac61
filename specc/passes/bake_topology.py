"""Make the topology a constant: a static mask instead of an input."""

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.topology import CHAIN, TOPOLOGY, TREE, Topology


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
        depths, block = _fixed(body, inputs["tokens"], topology)
    block.metadata_props[TOPOLOGY] = CHAIN if topology is None or topology.is_chain else TREE
    for name, constant in (("depths", depths), ("block", block)):
        inputs[name].replace_all_uses_with(constant)
        graph.inputs.remove(inputs[name])
    graph.insert_before(graph[0], body.nodes)
    return model


def _fixed(body: Body, tokens: ir.Value, topology: Topology) -> tuple[ir.Value, ir.Value]:
    fed = None if tokens.shape is None else tokens.shape[1]
    if fed != topology.width:
        raise ValueError(f"topology of {topology.width} rows for a graph fed {fed} tokens")
    return body.constant(topology.depths()), body.constant(topology.block(), np.bool_)


def _open_chain(body: Body, tokens: ir.Value) -> tuple[ir.Value, ir.Value]:
    width = body.op("Squeeze", body.op("Shape", tokens, start=1, end=2), body.constant([0]))
    depths = body.op("Range", body.constant(0), width, body.constant(1))
    row = body.op("Unsqueeze", depths, body.constant([1]))
    return depths, body.op("LessOrEqual", depths, row)
