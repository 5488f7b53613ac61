"""A whole decoder stored in 16 bits, in MIGraphX's dialect, run by ONNX Runtime."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.backends.migraphx.emit import narrowed
from specc.backends.migraphx.lint import check_dialect
from specc.backends.migraphx.lowering import lower
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from tests.legalize.migraphx.support import static
from tests.models.support import OrtEvaluator, Runner, oracle_runner, token_ids
from tests.support.tensorrt_cores import core, request

F16, WIDTH, CALLS = ir.DataType.FLOAT16, 5, 3


def logits(runner: Runner) -> NDArray[np.float32]:
    return runner.feed_in([WIDTH] * CALLS, token_ids(WIDTH * CALLS))


@pytest.mark.parametrize("wide_head", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_16_bit_form_is_as_near_as_numpy_with_16_bit_rounding(family: str, wide_head: bool) -> None:
    """numpy: onnx's reference evaluator on the same core graph, narrowed, which rounds in the softmax too."""
    exact = logits(oracle_runner(core("verifier", family).graph))
    stored = replace(core("verifier", family, F16, weights=F16), wide_head=wide_head)
    rounded = narrow_linears(narrow_attention(stored.graph.clone()), wide_head=wide_head)
    by_numpy = np.abs(logits(oracle_runner(rounded)) - exact).max()
    graph = lower(static(narrowed(replace(request("mi300x"), verifier=stored)).verifier.graph, WIDTH))
    check_dialect(ir.to_proto(graph))
    found = np.abs(logits(Runner(graph, OrtEvaluator(graph))) - exact).max()
    assert 0 < found <= 2 * by_numpy
