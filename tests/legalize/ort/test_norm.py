import numpy as np
import onnx_ir as ir
import pytest

from specc.core.building import Body, model, value
from specc.core.initializers import initializer
from specc.core.oracle import Oracle
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from tests.core.support import floats
from tests.models.support import OrtEvaluator, legalized, random_decoder

F32 = ir.DataType.FLOAT
HIDDEN = 16


def norm_graph(kind: str) -> ir.Model:
    """`normed = RMSNormalization(x)`, x an input or the sum that `kind` says; also `total`, what was normed."""
    body = Body()
    a, b = (value(name, [1, "S", HIDDEN], F32) for name in ("a", "b"))
    weight = initializer("weight", "norm", 1 + floats(HIDDEN, seed=1))
    bias = initializer("bias", "norm", floats(HIDDEN, seed=2))
    narrow = initializer("narrow", "norm", floats(HIDDEN, seed=3).astype(np.float16))
    added = {
        "input": lambda: a,
        "residual": lambda: body.op("Add", a, b),
        "bias": lambda: body.op("Add", body.op("Neg", a), bias),
        "cast_bias": lambda: body.op("Add", body.op("Neg", a), body.op("CastLike", narrow, a)),
        "constant": lambda: body.op("Add", a, body.constant(np.ones(HIDDEN), np.float32)),
    }[kind]()
    normed = body.op("RMSNormalization", added, weight, axis=-1, epsilon=1e-3)
    doubled, total = body.op("Add", normed, normed), body.op("Neg", added)
    for name, output in (("doubled", doubled), ("total", total)):
        output.name, output.shape, output.dtype = name, ir.Shape([1, "S", HIDDEN]), F32
    used = {"input": [], "residual": [], "bias": [bias], "cast_bias": [narrow], "constant": []}[kind]
    return model("norm", [a, b], [doubled, total], body, initializers=[weight, *used])


@pytest.mark.parametrize(
    ("kind", "fused"),
    [("input", False), ("residual", True), ("bias", False), ("cast_bias", False), ("constant", False)],
)
def test_a_norm_takes_in_a_residual_addition_and_no_other(kind: str, fused: bool) -> None:
    graph = norm_graph(kind)
    legal = legalize(graph.clone(), "ort", OPS)
    op_types = [node.op_type for node in legal.graph]
    assert ("SkipSimplifiedLayerNormalization" in op_types) == fused
    assert ("SimplifiedLayerNormalization" in op_types) != fused
    oracle, ort = Oracle(graph), OrtEvaluator(legal)
    for width in (1, 2, 3, 5, 8):
        fed = {"a": floats(1, width, HIDDEN, seed=width), "b": floats(1, width, HIDDEN, seed=width + 50)}
        expected, found = oracle.run(fed), ort.run(fed)
        for name in expected:
            assert np.abs(expected[name] - found[name]).max() <= 1e-5


def test_every_residual_addition_of_a_decoder_is_taken_in() -> None:
    op_types = [node.op_type for node in legalized(random_decoder(num_hidden_layers=3)).graph]
    assert op_types.count("SkipSimplifiedLayerNormalization") == 5
    assert op_types.count("SimplifiedLayerNormalization") == 2


def test_a_sum_that_is_an_output_stays() -> None:
    body = Body()
    a, b = (value(name, [1, 2, HIDDEN], F32) for name in ("a", "b"))
    weight = initializer("weight", "norm", floats(HIDDEN))
    total = body.op("Add", a, b)
    normed = body.op("RMSNormalization", total, weight, axis=-1, epsilon=1e-3)
    for name, output in (("total", total), ("normed", normed)):
        output.name, output.shape, output.dtype = name, ir.Shape([1, 2, HIDDEN]), F32
    legal = legalize(model("norm", [a, b], [total, normed], body, initializers=[weight]), "ort", OPS)
    assert [node.op_type for node in legal.graph] == ["Add", "SimplifiedLayerNormalization"]
