from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from specc.core.building import Body, model, value
from specc.core.functions.linear import UNSIGNED_ZERO, linear, linear_q8
from specc.core.initializers import initializer
from specc.core.oracle import Oracle
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.passes.quantize_linears import UNSIGNED_BLOCKS, quantized
from tests.core.support import floats
from tests.models.support import OrtEvaluator

WIDTHS = (1, 2, 3, 5, 8)
INNER, OUTER = 64, 24


def linear_graph(weight: Any, calls: int = 1) -> ir.Model:
    """`y{i} = linear(x{i}, weight)` for each of `calls`."""
    body, held = Body(), initializer("weight", "mlp", weight)
    inputs = [value(f"x{i}", [1, "S", INNER], ir.DataType.FLOAT) for i in range(calls)]
    outputs = [body.call(linear(), x, held)[0] for x in inputs]
    return finished(body, inputs, outputs, [held], [linear()])


def q8_graph(weight: Any, block: int, calls: int = 1) -> ir.Model:
    """The same with `linear_q8` and the weight's codes."""
    codes, scale = quantized(weight, block, UNSIGNED_BLOCKS)
    held = [initializer("codes", "mlp", codes), initializer("scale", "mlp", scale)]
    body = Body()
    inputs = [value(f"x{i}", [1, "S", INNER], ir.DataType.FLOAT) for i in range(calls)]
    outputs = [body.call(linear_q8(), x, *held, block_size=block, zero_point=UNSIGNED_ZERO)[0] for x in inputs]
    return finished(body, inputs, outputs, held, [linear_q8()])


def finished(body: Body, inputs: Any, outputs: Any, held: Any, functions: Any) -> ir.Model:
    for i, y in enumerate(outputs):
        y.name, y.shape, y.dtype = f"y{i}", ir.Shape([1, "S", OUTER]), ir.DataType.FLOAT
    return model("linear", inputs, outputs, body, initializers=held, functions=functions)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_linear(dtype: Any) -> None:
    graph = linear_graph(floats(OUTER, INNER, seed=1).astype(dtype))
    oracle, ort = Oracle(graph), OrtEvaluator(legalize(graph.clone(), "ort", OPS))
    for width in WIDTHS:
        fed = {"x0": floats(1, width, INNER, seed=width)}
        assert np.abs(oracle.run(fed)["y0"] - ort.run(fed)["y0"]).max() <= 2e-5


@pytest.mark.parametrize("block", [16, 32, 64])
def test_linear_q8_rounds_activations_to_8_bits_and_no_more(block: int) -> None:
    weight = floats(OUTER, INNER, seed=1)
    graph = q8_graph(weight, block)
    oracle, ort = Oracle(graph), OrtEvaluator(legalize(graph.clone(), "ort", OPS))
    for width in WIDTHS:
        x = floats(1, width, INNER, seed=width)
        error = np.abs(oracle.run({"x0": x})["y0"] - ort.run({"x0": x})["y0"])
        # Each activation moves by at most half a step, evenly, and meets the weights of its row.
        step = np.abs(x).max() / 127
        assert error.max() <= step / 2 * np.abs(weight).sum(axis=1).max()
        assert np.sqrt((error**2).mean()) <= 1.2 * step / np.sqrt(12) * np.sqrt((weight**2).sum(axis=1).mean())


def test_linear_q8_uses_the_codes_as_they_lie() -> None:
    """One-hot activations are exact in 8 bits: every weight must come back as scale * (codes - 128)."""
    weight = floats(OUTER, INNER, seed=3)
    codes, scale = quantized(weight, 16, UNSIGNED_BLOCKS)
    ort = OrtEvaluator(legalize(q8_graph(weight, 16), "ort", OPS))
    found = ort.run({"x0": np.eye(INNER, dtype=np.float32)[None]})["y0"][0].T
    expected = np.repeat(scale, 16, axis=1) * (codes.astype(np.float32) - 128)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("make", [linear_graph, lambda weight, calls: q8_graph(weight, 32, calls)])
def test_calls_that_share_a_weight_share_its_bytes(make: Any) -> None:
    graph = make(floats(OUTER, INNER), 3)
    held = sum(v.const_value.nbytes for v in graph.graph.initializers.values())
    legal = legalize(graph.clone(), "ort", OPS)
    assert sum(v.const_value.nbytes for v in legal.graph.initializers.values()) == held
    fed = {f"x{i}": floats(1, 2, INNER, seed=i) for i in range(3)}
    expected, found = Oracle(graph).run(fed), OrtEvaluator(legal).run(fed)
    for i in range(3):
        assert np.abs(expected[f"y{i}"] - found[f"y{i}"]).max() <= 0.5


def test_the_core_graph_keeps_its_shapes() -> None:
    graph = q8_graph(floats(OUTER, INNER), 32)
    legalize(graph.clone(), "ort", OPS)
    assert graph.graph.initializers["codes"].shape == ir.Shape([OUTER, INNER])
