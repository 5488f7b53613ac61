"""16-bit caches made fp32: the graph is the one that was built with fp32 caches."""

import numpy as np
import onnx_ir as ir
import pytest

from specc.models.decoder import DecoderShape
from specc.passes.widen_caches import widen_caches
from tests.models.support import oracle_runner, random_decoder, token_ids


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("state", [ir.DataType.FLOAT16, ir.DataType.BFLOAT16])
def test_logits_are_those_of_fp32_caches(family: str, state: ir.DataType) -> None:
    exact = random_decoder(family, DecoderShape(48))
    widened = widen_caches(random_decoder(family, DecoderShape(48, state=state)))
    expected, found = (oracle_runner(model).feed_in([6, 1, 3], token_ids(10)) for model in (exact, widened))
    np.testing.assert_array_equal(found, expected)
    for mine, theirs in ((widened.graph.inputs, exact.graph.inputs), (widened.graph.outputs, exact.graph.outputs)):
        assert [(v.name, v.dtype, v.shape) for v in mine] == [(v.name, v.dtype, v.shape) for v in theirs]


def test_what_is_not_a_cache_stays() -> None:
    model = random_decoder("llama", DecoderShape(48, state=ir.DataType.FLOAT16))
    copy = model.clone()
    before = {v.name: v.dtype for v in model.graph.inputs if not str(v.name).startswith("past.")}
    widen_caches(model)
    assert {v.name: v.dtype for v in model.graph.inputs if v.name in before} == before
    assert {v.dtype for v in copy.graph.inputs if str(v.name).startswith("past.")} == {ir.DataType.FLOAT16}
