"""Store the weights of some linear layers in 8 bits, block by block."""

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core import DOMAIN
from specc.core.functions.linear import LINEAR, LINEAR_Q8, SIGNED_ZERO, UNSIGNED_ZERO, linear_q8
from specc.core.initializers import derived, part_of
from specc.core.inspection import inputs_of, static_shape, tensor_of
from specc.errors import CheckpointError
from specc.passes.head import HEAD, TABLE, drop_unused

BLOCK_SIZES = (64, 32, 16)  # larger is faster on the CPU, smaller is nearer to the checkpoint
_SMALLEST_SCALE = np.finfo(np.float32).tiny  # below it the inverse overflows

Array = NDArray[Any]


def quantize_linears(model: ir.Model, parts: Collection[str], *, row_scales: bool = False) -> ir.Model:
    """`linear(x, weight)` becomes `linear_q8(x, codes, scale)` where the weight's part is one of `parts`.

    row_scales: signed codes and one scale a row (an output), not one a block, for backends that multiply whole rows.
    A weight whose inner size no block divides stays as it is. A weight reached through a layer function's input is
    changed at every call. A head that is the embedding table is quantised for itself; the embedding keeps its table.
    Reading a weight that is not finite raises CheckpointError.
    """
    graph, changed = model.graph, False
    for function in model.functions.values():
        for node in list(function):
            if _is_linear(node) and any(node.inputs[1] is v for v in function.inputs):
                changed |= _quantize_in_function(model, function, node, parts, row_scales)
    for node in list(graph):
        if _is_linear(node) and (block := _block(inputs_of(node)[1], parts, row_scales)):
            codes, scale = _codes_and_scale(graph, inputs_of(node)[1], block, _zero_point(row_scales))
            _replace(graph, node, codes, scale, block, _zero_point(row_scales))
            changed = True
    if changed:
        function = linear_q8().clone()
        model.functions[function.identifier()] = function
        drop_unused(graph)
    return model


def block_scales(weight: Array, block: int) -> NDArray[np.float32]:
    """Scales f32[N, K / block] that put each block's largest magnitude at 127; 0 for a block of zeros."""
    magnitudes = np.abs(weight.astype(np.float32, copy=False)).reshape(weight.shape[0], -1, block).max(axis=-1)
    scales: NDArray[np.float32] = magnitudes / np.float32(127)
    return np.where(scales < _SMALLEST_SCALE, np.float32(0), scales)


def quantized(weight: Array, block: int, zero_point: int) -> tuple[Array, NDArray[np.float32]]:
    """Codes u8 or i8[N, K] and scales f32[N, K / block] with weight ~ scale * (codes - zero_point).

    Round to nearest, symmetric. zero_point: UNSIGNED_ZERO or SIGNED_ZERO.
    """
    scales = block_scales(weight, block)
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    blocks = weight.astype(np.float32, copy=False).reshape(weight.shape[0], -1, block)
    codes = np.rint(blocks * inverse[..., None]) + zero_point
    return codes.astype(_code_dtype(zero_point)).reshape(weight.shape), scales


def _quantize_in_function(
    model: ir.Model, function: ir.Function, node: ir.Node, parts: Collection[str], row_scales: bool
) -> bool:
    weight = inputs_of(node)[1]
    index = next(i for i, v in enumerate(function.inputs) if v is weight)
    calls = [n for n in model.graph if n.op_identifier() == function.identifier()]
    blocks = {_block(call.inputs[index], parts, row_scales) for call in calls}
    if len(blocks) != 1 or (block := blocks.pop()) is None:
        return False
    scale = ir.Value(name=f"{weight.name}_scale")
    function.inputs.append(scale)
    _replace(function, node, weight, scale, block, _zero_point(row_scales))
    for call in calls:
        codes, call_scale = _codes_and_scale(model.graph, inputs_of(call)[index], block, _zero_point(row_scales))
        call.replace_input_with(index, codes)
        call.resize_inputs(len(call.inputs) + 1)
        call.replace_input_with(len(call.inputs) - 1, call_scale)
    return True


def _is_linear(node: ir.Node) -> bool:
    return node.domain == DOMAIN and node.op_type == LINEAR


def _block(weight: ir.Value | None, parts: Collection[str], row_scales: bool) -> int | None:
    """The block size for a weight that is to be quantised, else None."""
    if weight is None or not weight.is_initializer() or _linear_part(weight) not in parts:
        return None
    inner = static_shape(weight)[1]
    return inner if row_scales else next((size for size in BLOCK_SIZES if inner % size == 0), None)


def _linear_part(weight: ir.Value) -> str:
    """The part a linear layer's weight belongs to: an embedding table serves as the head there."""
    part = part_of(weight)
    return HEAD if part == TABLE else part


def _zero_point(row_scales: bool) -> int:
    return SIGNED_ZERO if row_scales else UNSIGNED_ZERO


def _code_dtype(zero_point: int) -> np.dtype[Any]:
    return np.dtype(np.int8 if zero_point == SIGNED_ZERO else np.uint8)


def _codes_and_scale(graph: ir.Graph, weight: ir.Value, block: int, zero_point: int) -> tuple[ir.Value, ir.Value]:
    tensor, inner = tensor_of(weight), static_shape(weight)[1]

    def finite() -> Array:
        array = tensor.numpy()
        if not np.isfinite(array).all():
            raise CheckpointError(f"weight '{weight.name}' holds values that are not finite; the checkpoint is damaged")
        return array

    codes = derived(
        weight, f"q8b{block}.codes", _linear_part(weight), _code_dtype(zero_point), inner,
        lambda: quantized(finite(), block, zero_point)[0],
    )  # fmt: skip
    scale = derived(
        weight, f"q8b{block}.scale", _linear_part(weight), np.dtype(np.float32), inner // block,
        lambda: block_scales(finite(), block),
    )  # fmt: skip
    made = [graph.initializers.setdefault(str(value.name), value) for value in (codes, scale)]
    return made[0], made[1]


def _replace(
    scope: ir.Graph | ir.Function, node: ir.Node, codes: ir.Value, scale: ir.Value, block: int, zero_point: int
) -> None:
    attributes = {"block_size": block, "zero_point": zero_point}
    new = ir.node(LINEAR_Q8, [node.inputs[0], codes, scale], attributes, domain=DOMAIN, outputs=[ir.Value()])
    old = node.outputs[0]
    scope.insert_before(node, new)
    name, shape, kind = old.name, old.shape, old.type
    old.replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
    scope.remove(node, safe=True)
    new.outputs[0].name, new.outputs[0].shape, new.outputs[0].type = name, shape, kind
