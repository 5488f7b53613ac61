"""Linear layers in MIGraphX's dialect."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from specc.backends.migraphx.lowering import lower
from specc.core.building import Body, model, value
from specc.core.functions.linear import SIGNED_ZERO, UNSIGNED_ZERO, linear, linear_q8
from specc.core.initializers import initializer
from specc.errors import LegalizeError
from specc.passes.quantize_linears import SIGNED_ROWS, UNSIGNED_BLOCKS, quantized
from tests.core.support import floats

INNER, OUTER, WIDTH = 64, 24, 5
Array = NDArray[Any]


def linear_graph(held: list[ir.Value], **attributes: Any) -> ir.Model:
    """`y = linear(x, weight)`, or `linear_q8(x, codes, scale)`."""
    function = linear() if len(held) == 1 else linear_q8()
    body, x = Body(), value("x", [1, WIDTH, INNER], ir.DataType.FLOAT)
    (y,) = body.call(function, x, *held, **attributes)
    y.name, y.shape, y.dtype = "y", ir.Shape([1, WIDTH, OUTER]), ir.DataType.FLOAT
    return model("linear", [x], [y], body, initializers=held, functions=[function])


def run(graph: ir.Model, x: Array) -> Array:
    (y,) = ReferenceEvaluator(ir.to_proto(lower(graph))).run(None, {"x": x})
    return np.asarray(y)


def test_fp32_weights_are_multiplied_in_fp32() -> None:
    weight, x = floats(OUTER, INNER, seed=1), floats(1, WIDTH, INNER, seed=2)
    assert np.abs(run(linear_graph([initializer("w", "mlp", weight)]), x) - x @ weight.T).max() <= 1e-4


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_weights_are_multiplied_in_16_bits(dtype: Any) -> None:
    """No further from the exact product than twice what rounding x and y to 16 bits costs."""
    weight, x = floats(OUTER, INNER, seed=1).astype(dtype), floats(1, WIDTH, INNER, seed=2)
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    rounded = (x.astype(dtype).astype(np.float32) @ weight.astype(np.float32).T).astype(dtype).astype(np.float64)
    found = run(linear_graph([initializer("w", "mlp", weight)]), x)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - exact).max() <= 2 * np.abs(rounded - exact).max()


def q8_graph(weight: Array, block: int, zero_point: int = SIGNED_ZERO) -> ir.Model:
    codes, scale = quantized(weight, block, SIGNED_ROWS if zero_point == SIGNED_ZERO else UNSIGNED_BLOCKS)
    held = [initializer("codes", "mlp", codes), initializer("scale", "mlp", scale)]
    return linear_graph(held, block_size=block, zero_point=zero_point)


def test_8_bit_products_are_those_of_rounded_rows() -> None:
    weight, x = floats(OUTER, INNER, seed=1), floats(1, WIDTH, INNER, seed=2)
    x[0, 3] = 0
    codes, scale = quantized(weight, INNER, SIGNED_ROWS)
    step = np.maximum(np.abs(x).max(axis=-1, keepdims=True) / 127, np.finfo(np.float32).tiny)
    expected = (np.rint(x / step) @ codes.astype(np.float32).T) * step * scale[:, 0]
    found = run(q8_graph(weight, INNER), x)
    assert np.abs(found - expected).max() <= 1e-4
    assert not found[0, 3].any()


def test_a_rows_8_bit_result_does_not_depend_on_its_neighbours() -> None:
    """What DynamicQuantizeLinear would break: one large row coarsens no other."""
    weight, x = floats(OUTER, INNER, seed=1), floats(1, WIDTH, INNER, seed=2)
    loud = x.copy()
    loud[0, -1] *= 1e4
    quiet, disturbed = run(q8_graph(weight, INNER), x), run(q8_graph(weight, INNER), loud)
    np.testing.assert_array_equal(quiet[0, :-1], disturbed[0, :-1])


def test_both_operands_are_int8_and_the_weight_is_stored_so() -> None:
    graph = lower(q8_graph(floats(OUTER, INNER), INNER))
    (product,) = (node for node in graph.graph if node.op_type == "MatMulInteger")
    assert len(product.inputs) == 2
    turned = product.inputs[1].producer()
    assert turned is not None
    assert turned.inputs[0].name == "codes"
    assert {name: v.dtype for name, v in graph.graph.initializers.items()} == {
        "codes": ir.DataType.INT8,
        "scale": ir.DataType.FLOAT,
    }
    cast = product.inputs[0].producer()
    assert cast is not None
    assert cast.attributes["to"].as_int() == ir.DataType.INT8


@pytest.mark.parametrize(
    ("block", "zero_point", "found"),
    [(16, SIGNED_ZERO, "INT8 codes and a scale for each 16 of 64"), (INNER, UNSIGNED_ZERO, "UINT8 codes and a scale")],
)
def test_scales_a_block_and_unsigned_codes_are_refused(block: int, zero_point: int, found: str) -> None:
    with pytest.raises(LegalizeError, match=rf"'codes' has {found}.*row_scales"):
        lower(q8_graph(floats(OUTER, INNER), block, zero_point))
