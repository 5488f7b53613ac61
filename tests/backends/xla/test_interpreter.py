import jax
import numpy as np
import onnx_ir as ir
import pytest

from specc.backends.xla.interpreter import Interpreter
from specc.core.building import Body, function, model, reference, value
from specc.errors import LegalizeError
from tests.support.refusals import refuses

F32, I64 = ir.DataType.FLOAT, ir.DataType.INT64


def test_ops_without_a_lowering_are_all_named() -> None:
    body = Body()
    x = value("x", [2], F32)
    inner = Body()
    inner_x = value("x")
    made = function("inside", [inner_x], {"y": inner.op("Hardmax", inner_x)}, inner)
    (called,) = body.call(made, body.op("Mish", x))
    called.name = "y"
    with refuses(LegalizeError, "no lowering for Hardmax, Mish in 'odd'", "specc/backends/xla/lowering/"):
        Interpreter(model("odd", [x], [called], body, functions=[made]))


def test_a_shape_that_depends_on_data_is_refused() -> None:
    body = Body()
    x, shape = value("x", [4], F32), value("shape", [2], I64)
    y = body.op("Reshape", x, shape)
    y.name = "y"
    interpreter = Interpreter(model("dynamic", [x, shape], [y], body))
    known = jax.jit(lambda x: interpreter.run({"x": x, "shape": np.array([2, 2])})["y"])(np.zeros(4, np.float32))
    assert known.shape == (2, 2)
    with refuses(LegalizeError, "the shape of Reshape", "depends on data"):
        jax.jit(interpreter.run)({"x": np.zeros(4, np.float32), "shape": np.array([2, 2])})


def test_attributes_of_a_call_reach_the_body() -> None:
    inner, x = Body(), value("x")
    soft = inner.op("Softmax", x, axis=reference("axis", "along", ir.AttributeType.INT))
    along = function("soft", [x], {"y": soft}, inner, [ir.Attr("along", ir.AttributeType.INT, None)])
    body, fed = Body(), value("x", [2, 3], F32)
    (y,) = body.call(along, fed, along=0)
    y.name = "y"
    made = Interpreter(model("m", [fed], [y], body, functions=[along])).run({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_allclose(np.asarray(made["y"]), 0.5, rtol=0, atol=1e-7)


def test_shapes_are_computed_while_tracing() -> None:
    body, x = Body(), value("x", [2, 3], F32)
    count = body.op("Mul", body.op("Shape", x, start=1), body.constant([2]))
    y = body.op("Expand", body.constant([1.5], np.float32), count)
    y.name = "y"
    made = Interpreter(model("m", [x], [y], body)).run({"x": np.zeros((2, 3), np.float32)})
    assert isinstance(made["y"], np.ndarray)
    assert made["y"].tolist() == [1.5] * 6


@pytest.mark.parametrize("calls", [2, 3])
def test_a_function_called_in_a_row_without_stacked_arrays_is_no_loop(calls: int) -> None:
    inner, x = Body(), value("x")
    doubled = function("double", [x], {"y": inner.op("Add", x, x)}, inner)
    body, fed = Body(), value("x", [2], F32)
    y = fed
    for _ in range(calls):
        (y,) = body.call(doubled, y)
    y.name = "y"
    made = Interpreter(model("m", [fed], [y], body, functions=[doubled])).run({"x": np.ones(2, np.float32)})
    assert made["y"].tolist() == [2.0**calls] * 2
