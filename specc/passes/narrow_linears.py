"""Linear layers in 16 bits: products are computed in the dtype their weights are stored in."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onnx_ir as ir

from specc.core import DOMAIN
from specc.core.building import Body
from specc.core.functions.linear import LINEAR, LINEAR_Q8, LINEAR_W8A8
from specc.core.initializers import derived, part_of
from specc.core.inspection import inputs_of, static_shape, tensor_of
from specc.passes.head import drop_unused, logits_of

_NUMPY = {ir.DataType.FLOAT16: np.dtype(np.float16), ir.DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
_WEIGHT, _SCALE = 1, 2  # inputs of linear and linear_q8 that say what is computed in
_CODED = (LINEAR_Q8, LINEAR_W8A8)


def narrow_linears(model: ir.Model, *, scales: ir.DataType | None = None, wide_head: bool = False) -> ir.Model:
    """`linear` computes in its weight's dtype and `linear_q8` in its scale's, instead of in x's.

    `MatMul(x, CastLike(weight, x)^T)` becomes `CastLike(MatMul(CastLike(x, weight), weight^T), x)`, so that nothing
    changes for weights in fp32. scales: 16-bit dtype that the scales of 8-bit weights are rounded to; None: they stay
    in fp32, and so do their products. wide_head: a head stored in 16 bits is widened to fp32 before its product.
    """
    graph = model.graph
    if wide_head:
        _widen_head(model)
    if scales is not None:
        for node, index in list(_scales(model)):
            node.replace_input_with(index, _rounded(graph, inputs_of(node)[index], scales))
        drop_unused(graph)
    for name, index in ((LINEAR, _WEIGHT), *((name, _SCALE) for name in _CODED)):
        function = model.functions.get((DOMAIN, name, ""))
        if function is not None:
            _compute_in(function, function.inputs[0], function.inputs[index])
    return model


def _compute_in(function: ir.Function, x: ir.Value, like: ir.Value) -> None:
    """Let the product of `function` run in the dtype of its input `like`, its result in that of `x`."""
    body = Body()
    narrow = body.op("CastLike", x, like)
    for use in list(x.uses()):
        if use.node not in body.nodes:  # a weight is widened to what is computed in, hence not at all
            use.node.replace_input_with(use.idx, narrow)
    function.insert_before(function[0], body.nodes)
    (y,) = function.outputs
    name, y.name = y.name, f"narrow_{y.name}"
    wide = ir.node("CastLike", [y, x], outputs=[ir.Value(name=name)])
    function.append(wide)
    function.outputs[0] = wide.outputs[0]


def _widen_head(model: ir.Model) -> None:
    head = logits_of(model).producer()
    if head is None or head.op_type != LINEAR or inputs_of(head)[1].dtype not in _NUMPY:
        return
    body = Body()
    wide = body.op("Cast", inputs_of(head)[1], to=ir.DataType.FLOAT)
    model.graph.insert_before(head, body.nodes)
    head.replace_input_with(1, wide)


def _scales(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """Where a node of the graph is given a scale: by a call of `linear_q8`, or of a layer that calls it."""
    for node in model.graph:
        if node.domain == DOMAIN and node.op_type in _CODED:
            yield node, _SCALE
            continue
        function = model.functions.get(node.op_identifier())
        used = {call.inputs[_SCALE] for call in function or () if call.op_type in _CODED}
        for index, name in enumerate(function.inputs if function is not None and used else ()):
            if name in used:
                yield node, index


def _rounded(graph: ir.Graph, scale: ir.Value, dtype: ir.DataType) -> ir.Value:
    """The scale in `dtype`; of blocks of zeros, whose scale is 0, it is 1: some compilers want it positive."""
    tensor, like = tensor_of(scale), _NUMPY[dtype]

    def read() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        rounded = tensor.numpy().astype(like)
        return np.where(rounded == 0, like.type(1), rounded)

    value = derived(scale, like.name, part_of(scale), like, static_shape(scale)[1], read)
    return graph.initializers.setdefault(str(value.name), value)
