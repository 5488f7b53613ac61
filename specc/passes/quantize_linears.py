"""Store the weights of some linear layers in 8 bits, block by block."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core import DOMAIN
from specc.core.functions.linear import LINEAR, LINEAR_Q8, Q8_ZERO_POINT, linear_q8
from specc.core.initializers import lazy_initializer, part_of

BLOCK_SIZES = (64, 32, 16)  # larger is faster on the CPU, smaller is nearer to the checkpoint

Array = NDArray[Any]


def quantize_linears(model: ir.Model, parts: Collection[str]) -> ir.Model:
    """`linear(x, weight)` becomes `linear_q8(x, codes, scale)` where the weight's part is one of `parts`.

    A weight whose inner size no block divides stays as it is. Weights reached through a layer function's input are
    changed at every call. An embedding that shares a quantised head keeps its own table.
    """
    for function in model.functions.values():
        for node in list(function):
            if _is_linear(node) and any(node.inputs[1] is v for v in function.inputs):
                _quantize_in_function(model, function, node, parts)
    for node in list(model.graph):
        if _is_linear(node) and (block := _block(node.inputs[1], parts)):
            codes, scale = _codes_and_scale(model.graph, node.inputs[1], block)
            _replace(model.graph, node, codes, scale, block)
    _drop_unused(model.graph)
    function = linear_q8()
    model.functions[function.identifier()] = function
    return model


def quantized(weight: Array, block: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """codes u8[N, K] and scale f32[N, K / block] with weight ~ scale * (codes - 128): round to nearest, symmetric."""
    blocks = weight.astype(np.float32).reshape(weight.shape[0], -1, block)
    scale = np.abs(blocks).max(axis=-1) / np.float32(127)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    codes = np.rint(blocks * inverse[..., None]) + Q8_ZERO_POINT
    return codes.astype(np.uint8).reshape(weight.shape), scale


def _quantize_in_function(model: ir.Model, function: ir.Function, node: ir.Node, parts: Collection[str]) -> None:
    index = next(i for i, v in enumerate(function.inputs) if v is node.inputs[1])
    calls = [n for n in model.graph if n.op_identifier() == function.identifier()]
    blocks = {_block(call.inputs[index], parts) for call in calls}
    if len(blocks) != 1 or (block := blocks.pop()) is None:
        return
    scale = ir.Value(name=f"{function.inputs[index].name}_scale")
    function.inputs.append(scale)
    _replace(function, node, function.inputs[index], scale, block)
    for call in calls:
        codes, call_scale = _codes_and_scale(model.graph, call.inputs[index], block)
        call.replace_input_with(index, codes)
        call.resize_inputs(len(call.inputs) + 1)
        call.replace_input_with(len(call.inputs) - 1, call_scale)


def _is_linear(node: ir.Node) -> bool:
    return node.domain == DOMAIN and node.op_type == LINEAR


def _block(weight: ir.Value | None, parts: Collection[str]) -> int | None:
    """The block size for a weight that is to be quantised, else None."""
    if weight is None or not weight.is_initializer() or part_of(weight) not in parts:
        return None
    inner = weight.shape[1]  # type: ignore[index]
    return next((size for size in BLOCK_SIZES if inner % size == 0), None)


def _codes_and_scale(graph: ir.Graph, weight: ir.Value, block: int) -> tuple[ir.Value, ir.Value]:
    rows, inner = weight.shape  # type: ignore[misc]
    tensor = weight.const_value
    made: tuple[tuple[str, np.dtype[Any], int, Callable[[], Array]], ...] = (
        ("codes", np.dtype(np.uint8), inner, lambda: quantized(tensor.numpy(), block)[0]),
        ("scale", np.dtype(np.float32), inner // block, lambda: quantized(tensor.numpy(), block)[1]),
    )
    values = []
    for suffix, dtype, columns, read in made:
        name = f"{weight.name}.q8b{block}.{suffix}"
        value = graph.initializers.get(name)
        if value is None:
            value = lazy_initializer(name, part_of(weight), (rows, columns), dtype, read)
            graph.register_initializer(value)
        values.append(value)
    return values[0], values[1]


def _replace(scope: ir.Graph | ir.Function, node: ir.Node, codes: ir.Value, scale: ir.Value, block: int) -> None:
    new = ir.node(LINEAR_Q8, [node.inputs[0], codes, scale], {"block_size": block}, domain=DOMAIN, outputs=[ir.Value()])
    old = node.outputs[0]
    scope.insert_before(node, new)
    name, shape, kind = old.name, old.shape, old.type
    old.replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
    scope.remove(node, safe=True)
    new.outputs[0].name, new.outputs[0].shape, new.outputs[0].type = name, shape, kind


def _drop_unused(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
