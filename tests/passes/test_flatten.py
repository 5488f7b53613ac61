"""Flat graphs: the oracle's numbers are unchanged, every shape is static, and no size is computed at run time."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir
import pytest

from specc.core.building import Body, model, value
from specc.core.functions.attention import ATTENTION, VISIBILITY
from specc.core.functions.linear import LINEAR
from specc.core.oracle import Oracle
from specc.core.topology import chain
from specc.models.decoder import DecoderShape
from specc.passes.bake_topology import bake_topology
from specc.passes.flatten import flatten
from specc.passes.set_width import set_width
from tests.models.support import Runner, oracle_runner, random_decoder, token_ids

WIDTH = 3
KEPT = (ATTENTION, VISIBILITY, LINEAR)


def static_decoder(family: str = "llama") -> ir.Model:
    """A decoder of width 3, its chain baked in."""
    return bake_topology(
        set_width(random_decoder(family, DecoderShape(24)), WIDTH, WIDTH), chain(WIDTH - 1)
    )  # fmt: skip


def made_values(graph: ir.Model) -> Iterator[ir.Value]:
    for node in graph.graph:
        yield from node.outputs


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_flat_decoder_computes_the_same(family: str) -> None:
    decoder = static_decoder(family)
    flat = flatten(decoder.clone())
    assert not flat.functions
    runners = oracle_runner(decoder), Runner(flat, Oracle(flat))
    for seed in range(3):
        expected, found = (runner.feed(token_ids(WIDTH, seed)) for runner in runners)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("keep", [(), KEPT])
def test_every_shape_is_known_and_no_size_is_computed(keep: Sequence[str]) -> None:
    flat = flatten(static_decoder(), keep)
    assert all(v.shape is not None and v.shape.is_static() and v.dtype is not None for v in made_values(flat))
    assert not {node.op_type for node in flat.graph} & {"Shape", "Range"}


def test_kept_functions_stay_calls_with_the_shapes_of_their_bodies() -> None:
    decoder = static_decoder()
    kept, whole = flatten(decoder.clone(), KEPT), flatten(decoder)
    calls = {node.op_type for node in kept.graph if node.domain == "specc"}
    assert calls == set(KEPT)
    for called, inlined in zip(kept.graph.outputs, whole.graph.outputs, strict=True):
        assert (called.name, called.shape, called.dtype) == (inlined.name, inlined.shape, inlined.dtype)


def test_a_function_whose_shapes_are_not_known_can_not_be_kept() -> None:
    with pytest.raises(ValueError, match=r"no shapes are known for calls of \['embed'\]"):
        flatten(static_decoder(), ["embed"])


def test_an_open_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="'tokens' has no static shape"):
        flatten(bake_topology(random_decoder(), None))


def test_a_shape_that_depends_on_what_is_fed_is_refused() -> None:
    body, count = Body(), value("count", [], ir.DataType.INT64)
    counted = body.op("Range", body.constant(0), count, body.constant(1))
    counted.name, counted.dtype, counted.shape = "counted", ir.DataType.INT64, ir.Shape(["N"])
    with pytest.raises(ValueError, match="the shape of 'counted', made by Range, depends on what the graph is fed"):
        flatten(model("open", [count], [counted], body))


def test_constants_become_outputs_and_large_ones_are_left_to_the_backend() -> None:
    body, x = Body(), value("x", [3], ir.DataType.FLOAT)
    small = body.op("Range", body.constant(0), body.op("Squeeze", body.op("Shape", x)), body.constant(1))
    large = body.op("Expand", body.constant([1.0], np.float32), body.constant([1 << 17]))
    read = body.op("Neg", x)
    for name, output in (("small", small), ("large", large), ("read", read)):
        output.name, output.dtype = name, ir.DataType.FLOAT if name != "small" else ir.DataType.INT64
    flat = flatten(model("constants", [x], [small, large, read], body))
    made = {str(v.name): v.producer().op_type for v in flat.graph.outputs}
    assert made == {"small": "Constant", "large": "Expand", "read": "Neg"}
    np.testing.assert_array_equal(Oracle(flat).run({"x": np.zeros(3, np.float32)})["small"], [0, 1, 2])
