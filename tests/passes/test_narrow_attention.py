"""Attention computed in the dtype of its caches."""

import numpy as np
import onnx_ir as ir
import pytest

from specc.models.decoder import DecoderShape
from specc.passes.narrow_attention import narrow_attention
from tests.models.support import Runner, oracle_runner, random_decoder, token_ids

F32, F16 = ir.DataType.FLOAT, ir.DataType.FLOAT16


def decoder(family: str, state: ir.DataType) -> ir.Model:
    return random_decoder(family, DecoderShape(48, state=state))


def logits(runner: Runner) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return runner.feed_in([6, 1, 3], token_ids(10))


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_with_fp32_caches_nothing_changes(family: str) -> None:
    model = decoder(family, F32)
    expected = logits(oracle_runner(model))
    np.testing.assert_array_equal(logits(oracle_runner(narrow_attention(model.clone()))), expected)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_with_fp16_caches_the_error_is_that_of_16_bits(family: str) -> None:
    """Rounding q and the result costs what rounding keys and values did, within a factor of three."""
    exact = logits(oracle_runner(decoder(family, F32)))
    stored = np.abs(logits(oracle_runner(decoder(family, F16))) - exact).max()
    narrow = np.abs(logits(oracle_runner(narrow_attention(decoder(family, F16)))) - exact).max()
    assert stored > 0
    assert 0 < narrow <= 3 * stored


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_nothing_widens_a_cache_any_more(family: str) -> None:
    model = narrow_attention(decoder(family, F16))
    (function,) = (f for f in model.functions.values() if any(n.op_type == "Attention" for n in f))
    (node,) = (n for n in function if n.op_type == "Attention")
    assert [value.producer().op_type for value in node.inputs[1:3]] == ["TensorScatter"] * 2  # type: ignore[union-attr]
    assert sum(n.op_type == "CastLike" for n in function) == 4  # k, v, q in, y out


def test_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="narrowed already"):
        narrow_attention(narrow_attention(decoder("llama", F16)))
