"""A static graph made flat: functions inlined, every shape known, and what follows from shapes alone a constant."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnx_ir.passes.common as ir_passes
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from specc.core import DOMAIN, IR_VERSION
from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM, VISIBILITY
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.functions.thresholds import HIGHEST_THRESHOLD
from specc.core.inspection import constant_array, inputs_of, static_shape

Shapes = Sequence[Sequence[int]]
Made = Sequence[tuple[Sequence[int], ir.DataType]]
Array = NDArray[np.generic]

_LARGEST_CONSTANT = 1 << 16  # values a folded node may have: sizes and index tables, never weights


def flatten(model: ir.Model, keep: Collection[str] = ()) -> ir.Model:
    """Functions are inlined but for those named in `keep`; sizes and index tables become constants.

    Must hold: inputs and initializers have static shapes. Every value gets a dtype and a static shape.
    keep: functions that a backend lowers itself, out of `attention`, `attention_qk_norm`, `visibility`, `linear`,
    `linear_q8` and `highest_threshold`.
    """
    if unknown := set(keep) - set(_CALLS):
        raise ValueError(f"no shapes are known for calls of {sorted(unknown)}; known: {', '.join(_CALLS)}")
    ir_passes.InlinePass(criteria=lambda function: function.name not in keep)(model)
    graph, opsets = model.graph, model.graph.opset_imports
    for value in (*graph.inputs, *graph.initializers.values()):
        static_shape(value)
    for node in list(graph):
        if node.op_type == "Constant":
            _record(node.outputs[0], constant_array(node.outputs[0]))
        elif (folded := _folded(node, opsets)) is not None:
            _replace(graph, node, folded)
        else:
            _infer(node, opsets)
    ir_passes.RemoveUnusedNodesPass()(model)
    return model


def _record(value: ir.Value, array: Array | None) -> None:
    if array is None:
        raise ValueError(f"'{value.name}' is no constant")
    value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)


def _folded(node: ir.Node, opsets: Mapping[str, int]) -> list[Array] | None:
    """What a node gives whatever the inputs of the graph are, None if that depends on them or is large."""
    if node.domain:
        return None
    if node.op_type == "Shape":
        start = node.attributes.get_int("start", 0)
        return [np.asarray(static_shape(inputs_of(node)[0])[start : node.attributes.get_int("end", None)], np.int64)]
    given = [constant_array(v) for v in node.inputs]
    if any(array is None for array, v in zip(given, node.inputs, strict=True) if v is not None):
        return None
    arrays = {f"i{place}": array for place, array in enumerate(given) if array is not None}
    made = ReferenceEvaluator(_alone(node, arrays, opsets)).run(None, arrays)
    folded = [np.asarray(array) for array in made]
    return folded if sum(array.size for array in folded) <= _LARGEST_CONSTANT else None


def _alone(node: ir.Node, arrays: Mapping[str, Array], opsets: Mapping[str, int]) -> onnx.ModelProto:
    """A model of this one node, its inputs called i0, i1, ..., its outputs o0, o1, ..."""
    proto = ir.to_proto(node)
    names = [f"i{place}" if v is not None else "" for place, v in enumerate(node.inputs)]
    outputs = [f"o{place}" for place in range(len(node.outputs))]
    del proto.input[:], proto.output[:]
    proto.input.extend(names)
    proto.output.extend(outputs)
    inputs = [
        onnx.helper.make_tensor_value_info(name, ir.DataType.from_numpy(array.dtype), array.shape)
        for name, array in arrays.items()
    ]
    untyped = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = onnx.helper.make_graph([proto], node.op_type, inputs, untyped)
    opset = onnx.helper.make_opsetid("", opsets[""])
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)


def _replace(graph: ir.Graph, node: ir.Node, arrays: Sequence[Array]) -> None:
    for output, array in zip(node.outputs, arrays, strict=True):
        constant = ir.node("Constant", [], {"value": ir.tensor(np.ascontiguousarray(array))})
        graph.insert_before(node, constant)
        made = constant.outputs[0]
        _record(made, array)
        made.metadata_props.update(output.metadata_props)
        if output.is_graph_output():
            made.name, output.name = output.name, None
        output.replace_all_uses_with(made, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _infer(node: ir.Node, opsets: Mapping[str, int]) -> None:
    """Dtypes and shapes of what a node makes."""
    if node.domain == DOMAIN:
        made = _CALLS[node.op_type](node, [static_shape(v) for v in inputs_of(node)])
        for output, (shape, like) in zip(node.outputs, made, strict=True):
            output.shape, output.dtype = ir.Shape(shape), like
        return
    known = {str(v.name): v for v in node.inputs if v is not None}
    constants = {
        name: onnx.numpy_helper.from_array(array)
        for name, v in known.items()
        if (array := constant_array(v)) is not None
    }
    types = onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(node.op_type, opsets[""], node.domain),
        ir.to_proto(node),
        {name: _type_of(v) for name, v in known.items()},
        constants,
        opset_imports=[onnx.helper.make_opsetid("", opsets[""])],
        ir_version=IR_VERSION,
    )
    for output in node.outputs:
        tensor = types[str(output.name)].tensor_type
        if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            raise ValueError(f"the shape of '{output.name}', made by {node.op_type}, depends on what the graph is fed")
        output.dtype, output.shape = ir.DataType(tensor.elem_type), ir.Shape(d.dim_value for d in tensor.shape.dim)


def _type_of(value: ir.Value) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(_dtype(value), static_shape(value))


def _dtype(value: ir.Value) -> ir.DataType:
    if value.dtype is None:
        raise ValueError(f"'{value.name}' has no dtype")
    return value.dtype


def _attention(node: ir.Node, shapes: Shapes) -> Made:
    qkv, past_key, past_value = inputs_of(node)[:3]
    columns = node.attributes["heads"].as_int() * node.attributes["head_dim"].as_int()
    y = (*shapes[0][:-1], columns)
    return [(y, _dtype(qkv)), (shapes[1], _dtype(past_key)), (shapes[2], _dtype(past_value))]


def _visibility(node: ir.Node, shapes: Shapes) -> Made:
    (batch,), (rows, _), cache = shapes
    return [((batch, 1, rows, cache[2]), ir.DataType.BOOL)]


def _linear(node: ir.Node, shapes: Shapes) -> Made:
    return [((*shapes[0][:-1], shapes[1][0]), _dtype(inputs_of(node)[0]))]


def _threshold(node: ir.Node, shapes: Shapes) -> Made:
    return [((*shapes[0][:-1], 1), ir.DataType.FLOAT)]


_CALLS: Mapping[str, Callable[[ir.Node, Shapes], Made]] = {
    ATTENTION: _attention,
    ATTENTION_QK_NORM: _attention,
    VISIBILITY: _visibility,
    LINEAR: _linear,
    LINEAR_Q8: _linear,
    HIGHEST_THRESHOLD: _threshold,
}
