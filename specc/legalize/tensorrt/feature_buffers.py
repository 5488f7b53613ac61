"""Feature buffers in four dimensions, because TensorRT updates no others in place."""

from collections.abc import Sequence

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.core.building import Body
from specc.core.inspection import inputs_of, static_shape

_SCATTER, _AXES = "TensorScatter", 3


def lifted_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """What a state's shape becomes: `[B, C, H]` is `[B, 1, C, H]`, four dimensions stay."""
    return (shape[0], 1, *shape[1:]) if len(shape) == _AXES else tuple(shape)


def lift_feature_buffers(model: ir.Model) -> ir.Model:
    """Inputs `[B, C, H]` that are updated become `[B, 1, C, H]`, and so do the outputs they are updated to.

    What else reads such an input sees it squeezed. Must hold: each is updated once, by a TensorScatter along axis -2
    whose result is an output only.
    """
    graph = model.graph
    for place, buffer in enumerate(list(graph.inputs)):
        if any(use.node.op_type == _SCATTER for use in buffer.uses()) and len(static_shape(buffer)) == _AXES:
            shape = ir.Shape(lifted_shape(static_shape(buffer)))
            graph.inputs[place] = ir.Value(name=buffer.name, shape=shape, type=buffer.type)
            _replace(graph, buffer, graph.inputs[place])
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    return model


def _replace(graph: ir.Graph, buffer: ir.Value, wide: ir.Value) -> None:
    body = Body()
    axis = body.constant([1])
    read = body.op("Squeeze", wide, axis)
    for use in list(buffer.uses()):
        node = use.node
        if node.op_type != _SCATTER or use.idx:
            node.replace_input_with(use.idx, read)
            continue
        rows = inputs_of(node)[1]
        node.replace_input_with(0, wide)
        node.replace_input_with(1, body.op("Unsqueeze", rows, axis))
        node.outputs[0].shape = wide.shape
    graph.extend(body.nodes)
