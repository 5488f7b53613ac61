import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from specc.core.building import Body, function, model, value
from specc.core.initializers import initializer, lazy_initializer
from specc.core.oracle import Oracle

F32 = ir.DataType.FLOAT


def scaled_sum() -> ir.Model:
    """`y = outer(x, w)` where outer calls inner: `inner(x, w) = x * w`, `outer(x, w) = inner(x, w) + w`."""
    inner_body, x, w = Body(), value("x"), value("w")
    inner = function("inner", [x, w], {"y": inner_body.op("Mul", x, w)}, inner_body)
    outer_body, x, w = Body(), value("x"), value("w")
    (product,) = outer_body.call(inner, x, w)
    outer = function("outer", [x, w], {"y": outer_body.op("Add", product, w)}, outer_body)
    body, x = Body(), value("x", [2], F32)
    weight = initializer("w", "mlp", np.asarray([2, 3], np.float32))
    (y,) = body.call(outer, x, weight)
    y.name, y.shape, y.dtype = "y", ir.Shape([2]), F32
    return model("scaled_sum", [x], [y], body, initializers=[weight], functions=[outer, inner])


def test_functions_may_stand_before_those_they_call() -> None:
    assert [name for _, name, _ in scaled_sum().functions] == ["outer", "inner"]
    np.testing.assert_array_equal(Oracle(scaled_sum()).run({"x": np.asarray([5, 7], np.float32)})["y"], [12, 24])


def test_the_model_stays_as_it_is() -> None:
    graph = scaled_sum()
    before = ir.to_proto(graph)
    Oracle(graph)
    assert ir.to_proto(graph) == before


def test_given_weights_take_the_place_of_the_graphs() -> None:
    oracle = Oracle(scaled_sum(), {"w": np.asarray([0, 1], np.float32)})
    np.testing.assert_array_equal(oracle.run({"x": np.asarray([5, 7], np.float32)})["y"], [0, 8])


def test_weights_that_are_given_are_not_read_from_the_graph() -> None:
    def unread() -> np.ndarray:
        raise AssertionError("read")

    body, x = Body(), value("x", [2], F32)
    weight = lazy_initializer("w", "mlp", [2], np.dtype(np.float32), unread)
    y = body.op("Add", x, weight)
    y.name, y.shape, y.dtype = "y", ir.Shape([2]), F32
    graph = model("sum", [x], [y], body, initializers=[weight])
    oracle = Oracle(graph, {"w": np.ones(2, np.float32)})
    np.testing.assert_array_equal(oracle.run({"x": np.zeros(2, np.float32)})["y"], [1, 1])
    with pytest.raises(AssertionError, match="read"):
        Oracle(graph)


def test_outputs_come_by_name_in_their_own_dtype() -> None:
    body, x = Body(), value("x", [2], F32)
    narrow = body.op("Cast", x, to=ir.DataType.BFLOAT16)
    narrow.name, narrow.shape, narrow.dtype = "narrow", ir.Shape([2]), ir.DataType.BFLOAT16
    whole = body.op("Cast", x, to=ir.DataType.INT64)
    whole.name, whole.shape, whole.dtype = "whole", ir.Shape([2]), ir.DataType.INT64
    outputs = Oracle(model("casts", [x], [whole, narrow], body)).run({"x": np.asarray([1.003, 2.5], np.float32)})
    assert list(outputs) == ["whole", "narrow"]
    assert outputs["whole"].dtype == np.int64
    assert outputs["narrow"].dtype == ml_dtypes.bfloat16
    assert outputs["narrow"].astype(np.float32).tolist() == [1.0, 2.5]
