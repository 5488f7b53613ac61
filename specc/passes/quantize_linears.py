"""Store the weights of some linear layers in 8 or 4 bits, block by block."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core import DOMAIN
from specc.core.functions.linear import LINEAR, SIGNED_ZERO, UNSIGNED_ZERO, linear_q8, linear_w8a8
from specc.core.initializers import derived, part_of
from specc.core.inspection import inputs_of, static_shape, tensor_of
from specc.errors import CheckpointError
from specc.passes.head import HEAD, TABLE, drop_unused

BLOCK_SIZES = (64, 32, 16)  # larger is faster on the CPU, smaller is nearer to the checkpoint
_SMALLEST_SCALE = np.finfo(np.float32).tiny  # below it the inverse overflows

Array = NDArray[Any]


@dataclass(frozen=True)
class Encoding:
    """How a weight is told in few bits.

    name: in the names of what is stored. dtype: of the codes. zero_point: the code of 0. largest: the code, less that,
    of a block's largest magnitude. blocks: sizes that a block may have, the first that fits is taken; none: whole rows.
    function: what multiplies by it.
    """

    name: str
    dtype: np.dtype[Any]
    zero_point: int
    largest: int
    blocks: tuple[int, ...] = ()
    function: Callable[[], ir.Function] = linear_q8


UNSIGNED_BLOCKS = Encoding("q8", np.dtype(np.uint8), UNSIGNED_ZERO, 127, BLOCK_SIZES)
SIGNED_ROWS = Encoding("q8", np.dtype(np.int8), SIGNED_ZERO, 127)
SIGNED_ROWS_BOTH = Encoding("w8a8", np.dtype(np.int8), SIGNED_ZERO, 127, function=linear_w8a8)
FLOAT_ROWS = Encoding("f8", np.dtype(ml_dtypes.float8_e4m3fn), SIGNED_ZERO, 448)
SIGNED_4_BITS = Encoding("q4", np.dtype(ml_dtypes.int4), SIGNED_ZERO, 7, (32, 16))


def encodings(*, row_scales: bool) -> dict[str, Encoding]:
    """Those of a precision policy's dtypes. row_scales: 8-bit integers signed, one scale a row."""
    return {
        "int8": SIGNED_ROWS if row_scales else UNSIGNED_BLOCKS,
        "fp8": FLOAT_ROWS,
        "int4": SIGNED_4_BITS,
        "w8a8": SIGNED_ROWS_BOTH,
    }


def quantize_linears(
    model: ir.Model, parts: Collection[str], *, row_scales: bool = False, dtype: str = "int8"
) -> ir.Model:
    """`linear(x, weight)` becomes a coded one, `linear_q8(x, codes, scale)`, where the weight's part is one of `parts`.

    row_scales: signed codes and one scale a row (an output), not one a block, for backends that multiply whole rows.
    dtype: one of `encodings`.
    A weight whose inner size no block divides stays as it is. A weight reached through a layer function's input is
    changed at every call. A head that is the embedding table is quantised for itself; the embedding keeps its table.
    Reading a weight that is not finite raises CheckpointError.
    """
    graph, changed = model.graph, False
    encoding = encodings(row_scales=row_scales)[dtype]
    for function in model.functions.values():
        for node in list(function):
            if _is_linear(node) and any(node.inputs[1] is v for v in function.inputs):
                changed |= _quantize_in_function(model, function, node, parts, encoding)
    for node in list(graph):
        if _is_linear(node) and (block := _block(inputs_of(node)[1], parts, encoding)):
            codes, scale = _codes_and_scale(graph, inputs_of(node)[1], block, encoding)
            _replace(graph, node, codes, scale, block, encoding)
            changed = True
    if changed:
        function = encoding.function().clone()
        model.functions[function.identifier()] = function
        drop_unused(graph)
    return model


def block_scales(weight: Array, block: int, largest: int = 127) -> NDArray[np.float32]:
    """Scales f32[N, K / block] that put each block's largest magnitude at `largest`; 0 for a block of zeros."""
    magnitudes = np.abs(weight.astype(np.float32, copy=False)).reshape(weight.shape[0], -1, block).max(axis=-1)
    scales: NDArray[np.float32] = magnitudes / np.float32(largest)
    return np.where(scales < _SMALLEST_SCALE, np.float32(0), scales)


def quantized(weight: Array, block: int, encoding: Encoding) -> tuple[Array, NDArray[np.float32]]:
    """Codes [N, K] and scales f32[N, K / block] with weight ~ scale * (codes - zero point): to nearest, symmetric."""
    scales = block_scales(weight, block, encoding.largest)
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    blocks = weight.astype(np.float32, copy=False).reshape(weight.shape[0], -1, block)
    codes = blocks * inverse[..., None]
    if encoding is not FLOAT_ROWS:
        codes = np.rint(codes) + encoding.zero_point
    return codes.astype(encoding.dtype).reshape(weight.shape), scales


def _quantize_in_function(
    model: ir.Model, function: ir.Function, node: ir.Node, parts: Collection[str], encoding: Encoding
) -> bool:
    weight = inputs_of(node)[1]
    index = next(i for i, v in enumerate(function.inputs) if v is weight)
    calls = [n for n in model.graph if n.op_identifier() == function.identifier()]
    blocks = {_block(call.inputs[index], parts, encoding) for call in calls}
    if len(blocks) != 1 or (block := blocks.pop()) is None:
        return False
    scale = ir.Value(name=f"{weight.name}_scale")
    function.inputs.append(scale)
    _replace(function, node, weight, scale, block, encoding)
    for call in calls:
        codes, call_scale = _codes_and_scale(model.graph, inputs_of(call)[index], block, encoding)
        call.replace_input_with(index, codes)
        call.resize_inputs(len(call.inputs) + 1)
        call.replace_input_with(len(call.inputs) - 1, call_scale)
    return True


def _is_linear(node: ir.Node) -> bool:
    return node.domain == DOMAIN and node.op_type == LINEAR


def _block(weight: ir.Value | None, parts: Collection[str], encoding: Encoding) -> int | None:
    """The block size for a weight that is to be quantised, else None."""
    if weight is None or not weight.is_initializer() or _linear_part(weight) not in parts:
        return None
    inner = static_shape(weight)[1]
    return next((size for size in encoding.blocks or (inner,) if inner % size == 0), None)


def _linear_part(weight: ir.Value) -> str:
    """The part a linear layer's weight belongs to: an embedding table serves as the head there."""
    part = part_of(weight)
    return HEAD if part == TABLE else part


def _codes_and_scale(graph: ir.Graph, weight: ir.Value, block: int, encoding: Encoding) -> tuple[ir.Value, ir.Value]:
    tensor, inner = tensor_of(weight), static_shape(weight)[1]

    def finite() -> Array:
        array = tensor.numpy()
        if not np.isfinite(array).all():
            raise CheckpointError(f"weight '{weight.name}' holds values that are not finite; the checkpoint is damaged")
        return array

    codes = derived(
        weight, f"{encoding.name}b{block}.codes", _linear_part(weight), encoding.dtype, inner,
        lambda: quantized(finite(), block, encoding)[0],
    )  # fmt: skip
    scale = derived(
        weight, f"{encoding.name}b{block}.scale", _linear_part(weight), np.dtype(np.float32), inner // block,
        lambda: block_scales(finite(), block, encoding.largest),
    )  # fmt: skip
    made = [graph.initializers.setdefault(str(value.name), value) for value in (codes, scale)]
    return made[0], made[1]


def _replace(
    scope: ir.Graph | ir.Function, node: ir.Node, codes: ir.Value, scale: ir.Value, block: int, encoding: Encoding
) -> None:
    attributes = {"block_size": block, "zero_point": encoding.zero_point}
    called = encoding.function().name
    new = ir.node(called, [node.inputs[0], codes, scale], attributes, domain=DOMAIN, outputs=[ir.Value()])
    old = node.outputs[0]
    scope.insert_before(node, new)
    name, shape, kind = old.name, old.shape, old.type
    old.replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
    scope.remove(node, safe=True)
    new.outputs[0].name, new.outputs[0].shape, new.outputs[0].type = name, shape, kind
