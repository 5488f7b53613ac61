"""Whole decoders on XLA's CPU against onnx's reference evaluator."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from specc.models.decoder import DecoderShape
from specc.passes.quantize_linears import quantize_linears
from specc.passes.store_weights import store_weights
from specc.passes.trim_head import trim_head
from tests.backends.xla.flat import FlatRunner
from tests.models.support import oracle_runner, random_decoder, token_ids

MAX_ERROR = 1e-4
WIDTHS = [5, 1, 1, 5]
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
LINEARS = ("attention", "mlp", "head")


def largest_error(graph: ir.Model) -> float:
    ids = token_ids(sum(WIDTHS))
    expected, runner = oracle_runner(graph).feed(ids), FlatRunner(graph)
    found = np.concatenate([runner.feed(part) for part in np.split(ids, np.cumsum(WIDTHS)[:-1])])
    return float(np.abs(found - expected).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_every_family(family: str) -> None:
    assert largest_error(random_decoder(family)) <= MAX_ERROR


@pytest.mark.parametrize("layers", [0, 1, 2, 5])
def test_any_number_of_layers(layers: int) -> None:
    assert largest_error(random_decoder(num_hidden_layers=layers)) <= MAX_ERROR


def test_the_layers_are_one_loop() -> None:
    """However many there are, the program has the text of one."""
    texts = {}
    for layers in (2, 8):
        program = FlatRunner(random_decoder(num_hidden_layers=layers)).program(3)
        texts[layers] = program.jitted().lower(*program.arguments()).as_text()
        assert texts[layers].count("stablehlo.while") == 1
    assert abs(len(texts[8]) - len(texts[2])) < 200


@pytest.mark.parametrize("row_scales", [False, True])
def test_weights_in_8_bits(row_scales: bool) -> None:
    assert largest_error(quantize_linears(random_decoder(), LINEARS, row_scales=row_scales)) <= MAX_ERROR


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_weights_in_16_bits(dtype: str) -> None:
    dtypes = dict.fromkeys((*LINEARS, "embedding"), dtype)
    assert largest_error(store_weights(random_decoder(tie_word_embeddings=True), dtypes)) <= MAX_ERROR


@pytest.mark.parametrize("state", [ir.DataType.BFLOAT16, ir.DataType.FLOAT16])
def test_caches_in_16_bits(state: ir.DataType) -> None:
    """A value near the middle between two may be rounded otherwise: the error is of the size of one rounding."""
    assert largest_error(random_decoder(shape=DecoderShape(48, state=state))) <= 0.2


@pytest.mark.parametrize(("rows", "argument_rows"), [(60, 61), (20, 20)])
def test_a_head_of_the_first_rows_of_a_table(rows: int, argument_rows: int) -> None:
    """Of nearly all: the whole table is multiplied and the product cut. Of few: they are an argument of theirs."""
    graph = trim_head(random_decoder(tie_word_embeddings=True), rows)
    assert largest_error(graph) <= MAX_ERROR
    sizes = {spec.shape[0] for spec in FlatRunner(graph).program(1).weights if spec.source == "verifier.embedding"}
    assert sizes == {61, argument_rows}


def test_layers_that_differ_are_lowered_one_by_one() -> None:
    graph = random_decoder(num_hidden_layers=3)
    narrow(graph, "verifier.layers.1.down")
    assert largest_error(graph) <= MAX_ERROR
    program = FlatRunner(graph).program(2)
    assert program.jitted().lower(*program.arguments()).as_text().count("stablehlo.while") == 0


def narrow(graph: ir.Model, name: str) -> None:
    """Store one weight in 16 bits."""
    value: Any = graph.graph.initializers[name]
    array = value.const_value.numpy().astype(np.float16)
    value.const_value, value.dtype = ir.Tensor(array, name=name), ir.DataType.FLOAT16


def test_caches_are_written_where_they_are() -> None:
    runner = FlatRunner(random_decoder())
    runner.feed(token_ids(3))
    before = [array.unsafe_buffer_pointer() for array in runner.state]
    runner.feed(token_ids(3))
    assert [array.unsafe_buffer_pointer() for array in runner.state] == before


def test_the_compiler_aliases_every_cache() -> None:
    program = FlatRunner(random_decoder()).program(2)
    sizes = program.jitted().lower(*program.arguments()).compile().memory_analysis()
    assert sizes.alias_size_in_bytes == sum(4 * int(np.prod(state.shape)) for state in program.state)
