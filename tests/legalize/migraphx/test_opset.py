"""Forms of opset 24 in those of opset 17, checked by onnx's own checker."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from specc.backends.migraphx.lowering import lower
from specc.core.building import Body, model, value
from specc.core.initializers import initializer
from specc.core.oracle import Oracle
from tests.core.support import floats

Record = Callable[[Body, ir.Value], ir.Value]


def norm(body: Body, x: ir.Value) -> ir.Value:
    weight = body.constant(np.linspace(0.5, 1.5, 6), np.float32)
    return body.op("RMSNormalization", x, weight, axis=-1, epsilon=1e-3)


CASES: dict[str, Record] = {
    "ReduceMax over axes": lambda body, x: body.op("ReduceMax", x, body.constant([1])),
    "ReduceMin over axes": lambda body, x: body.op("ReduceMin", x, body.constant([1, 2]), keepdims=0),
    "ReduceMax over all": lambda body, x: body.op("ReduceMax", x),
    "Pad of one axis": lambda body, x: body.op(
        "Pad", x, body.constant([1, 2]), body.constant(3, np.float32), body.constant([-1])
    ),
    "Pad without a value": lambda body, x: body.op("Pad", x, body.constant([0, 1]), None, body.constant([1])),
    "Pad of every axis": lambda body, x: body.op("Pad", x, body.constant([0, 1, 0, 0, 0, 2])),
    "Split in two": lambda body, x: body.ops("Split", x, outputs=2, axis=-1, num_outputs=2)[1],
    "Split in uneven parts": lambda body, x: body.ops("Split", x, outputs=3, axis=1, num_outputs=3)[2],
    "CastLike": lambda body, x: body.op("CastLike", body.op("ArgMax", x, axis=-1), x),
    "RMSNormalization": norm,
    "TensorScatter": lambda body, x: body.op("TensorScatter", x, body.op("Neg", x), body.constant([0]), axis=-2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_older_form_is_valid_and_computes_the_same(name: str) -> None:
    body, x = Body(), value("x", [1, 5, 6], ir.DataType.FLOAT)
    y = CASES[name](body, x)
    y.name, y.dtype = "y", ir.DataType.FLOAT
    graph = model("form", [x], [y], body)
    fed: dict[str, Any] = {"x": floats(1, 5, 6)}
    expected = Oracle(graph).run(fed)["y"]
    proto = ir.to_proto(lower(graph))
    onnx.checker.check_model(proto, full_check=True)
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", 17)]
    (found,) = ReferenceEvaluator(proto).run(None, fed)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-6)


def test_a_split_with_parts_of_its_own_keeps_them() -> None:
    body, x = Body(), value("x", [1, 4, 6], ir.DataType.FLOAT)
    held = initializer("w", "norm", floats(5))
    parts = body.ops("Split", x, body.constant([1, 5]), outputs=2, axis=-1)
    y = body.op("Mul", parts[1], held)
    y.name, y.dtype = "y", ir.DataType.FLOAT
    graph = lower(model("form", [x], [y], body, initializers=[held]))
    (split,) = (node for node in graph.graph if node.op_type == "Split")
    assert "num_outputs" not in split.attributes
    assert len(split.inputs) == 2
