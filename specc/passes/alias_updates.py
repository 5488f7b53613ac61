"""One input per update: each of several updates of a cache takes the cache from outside, where all are one memory."""

from itertools import pairwise

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.core.inspection import inputs_of
from specc.passes.update_chains import chains, hand_on, holds_features, inline_writers

_AGAIN = ".again_"


def alias_updates(model: ir.Model) -> ir.Model:
    """`TensorScatter` after `TensorScatter` on one cache: each but the first reads an input of its own.

    For a backend that updates a cache in place once an input. Whoever runs the graph binds these inputs, and the
    outputs between the steps, to the memory of the cache. That a step then finds the rows of the steps before rests on
    their order, which tokens dictate and no value says: the numbers can be shown step by step only.
    Features are predicted by one step for the next, which is handed them, and written by the verifier alone.
    Raises ValueError: an update between steps is no output, so it can't be bound.
    """
    inline_writers(model)
    graph = model.graph
    for chain in list(chains(graph)):
        if len(chain) < 2:
            continue
        if holds_features(chain):
            hand_on(graph, chain)
        else:
            _take_again(graph, chain)
    ir_passes.RemoveUnusedNodesPass()(model)
    return model


def is_taken_again(name: str) -> bool:
    """Whether an input is a cache for an update that is not its first."""
    return _AGAIN in name


def _take_again(graph: ir.Graph, chain: list[ir.Node]) -> None:
    cache = inputs_of(chain[0])[0]
    for step, (before, node) in enumerate(pairwise(chain), 1):
        if not before.outputs[0].is_graph_output():
            raise ValueError(f"update {step} of cache '{cache.name}' is no output")
        again = ir.Value(name=f"{cache.name}{_AGAIN}{step}", shape=cache.shape, type=cache.type)
        graph.inputs.append(again)
        node.replace_input_with(0, again)
