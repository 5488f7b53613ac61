"""What goes to TensorRT, run by ONNX Runtime: its numbers are the core graph's."""

from functools import cache
from itertools import chain

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.backends.tensorrt.graphs import round_graph, stepping_graph
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from specc_runtime.engines.base import RoundSampling
from tests.models.support import OrtEvaluator, Runner, oracle_runner, token_ids
from tests.support.function_models import ort_run
from tests.support.fused_rounds import GREEDY, FusedRounds, generate
from tests.support.tensorrt_cores import core

F32, F16, BF16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
WIDTHS = [16, 5, 1, 1, 5]
PROMPT = [5, 1, 33, 60, 2]
SAMPLED = RoundSampling(temperature=0.8, top_k=30, top_p=0.9, min_p=0.02)


def logits(runner: Runner) -> NDArray[np.float32]:
    return runner.feed_in(WIDTHS, token_ids(sum(WIDTHS)))


def on_ort(graph: ir.Model) -> Runner:
    return Runner(graph, OrtEvaluator(graph, optimize=False))


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_fp32_form_is_the_core_graph(family: str, int8: bool) -> None:
    model = core("verifier", family, int8=int8)
    expected, found = logits(oracle_runner(model.graph)), logits(on_ort(stepping_graph(model)))
    assert np.abs(found - expected).max() <= 1e-4


@pytest.mark.parametrize("int8", [False, True], ids=["fp16", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_16_bit_form_is_as_near_as_numpy_with_16_bit_rounding(family: str, int8: bool) -> None:
    """numpy: onnx's reference evaluator on the same core graph, narrowed, which rounds where the program does."""
    exact = logits(
        oracle_runner(core("verifier", family).graph if not int8 else core("verifier", family, int8=True).graph)
    )
    stored = core("verifier", family, F16, weights=F16, int8=int8)
    narrowed = narrow_linears(narrow_attention(stored.graph.clone()), scales=F16)
    by_numpy = np.abs(logits(oracle_runner(narrowed)) - exact).max()
    found = np.abs(logits(on_ort(stepping_graph(stored))) - exact).max()
    assert 0 < found <= 2 * by_numpy


@pytest.mark.parametrize("int8", [False, True], ids=["bf16", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_bf16_form_rounds_where_numpy_does(family: str, int8: bool) -> None:
    """ONNX Runtime's CPU has no kernels for bf16: onnx's reference evaluator runs both graphs."""
    exact = logits(oracle_runner(core("verifier", family, int8=int8).graph))
    stored = core("verifier", family, BF16, weights=BF16, int8=int8)
    narrowed = narrow_linears(narrow_attention(stored.graph.clone()), scales=BF16)
    by_numpy = np.abs(logits(oracle_runner(narrowed)) - exact).max()
    found = np.abs(logits(oracle_runner(stepping_graph(stored))) - exact).max()
    assert 0 < found <= 2 * by_numpy


@pytest.mark.parametrize("codes", ["fp8", "int4"])
def test_codes_of_fewer_bits_stand_for_what_the_core_graph_reads(codes: str) -> None:
    """In fp32 by ONNX Runtime, in fp16 by onnx's reference evaluator, which has every dtype."""
    model = core("verifier", mlp=codes)
    exact = logits(oracle_runner(model.graph))
    assert np.abs(logits(on_ort(stepping_graph(model))) - exact).max() <= 1e-4
    stored = core("verifier", state=F16, weights=F16, mlp=codes)
    narrowed = narrow_linears(narrow_attention(stored.graph.clone()), scales=F16)
    by_numpy = np.abs(logits(oracle_runner(narrowed)) - exact).max()
    found = np.abs(logits(oracle_runner(stepping_graph(stored))) - exact).max()
    assert 0 < found <= 2 * by_numpy


def test_activations_in_8_bits_are_rounded_as_the_core_graph_rounds_them() -> None:
    """Against the core graph in its own arithmetic, and far from the one that rounds weights alone."""
    model = core("drafter", coded="w8a8")
    exact = logits(oracle_runner(model.graph))
    assert np.abs(logits(oracle_runner(stepping_graph(model))) - exact).max() <= 1e-4
    weights_alone = np.abs(logits(oracle_runner(core("drafter", int8=True).graph)) - exact).max()
    assert 1e-2 < weights_alone < np.abs(exact).max()
    stored = core("drafter", state=F16, weights=F16, coded="w8a8")
    narrowed = narrow_linears(narrow_attention(stored.graph.clone()), scales=F16)
    by_numpy = np.abs(logits(oracle_runner(narrowed)) - exact).max()
    found = np.abs(logits(oracle_runner(stepping_graph(stored))) - exact).max()
    assert 0 < found <= 2 * by_numpy


@cache
def rounds(gamma: int, int8: bool) -> ir.Model:
    drafter = core("drafter", int8=int8, num_hidden_layers=1)
    return round_graph(core("verifier"), drafter, gamma, None)


def prefilled() -> Runner:
    runner = on_ort(stepping_graph(core("verifier")))
    runner.feed(np.array(PROMPT[:-1]))
    return runner


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("gamma", [1, 3])
def test_greedy_rounds_are_plain_greedy_decoding(gamma: int, int8: bool) -> None:
    runner, text = prefilled(), list(PROMPT)
    state = {f"verifier.{name}": array for name, array in runner.state.items()}
    while len(text) < 45:
        text.append(int(runner.feed(np.array(text[-1:]))[0].argmax()))
    graph = rounds(gamma, int8)
    zeros = {str(v.name): np.zeros(v.shape.numpy(), np.float32) for v in graph.graph.inputs if v.shape is not None}
    fused = FusedRounds(graph, ort_run(graph), zeros | state)
    emitted = list(chain(*generate(fused, PROMPT, 35, gamma, GREEDY)))
    assert emitted == text[len(PROMPT) : len(PROMPT) + len(emitted)]


def test_a_cache_is_written_once_and_by_its_own_output() -> None:
    """TensorRT updates a cache in place if the graph's input is written once, to a graph output."""
    for graph in (stepping_graph(core("verifier", state=F16)), rounds(3, True)):
        inputs = set(graph.graph.inputs)
        written = [node for node in graph.graph if node.op_type == "TensorScatter"]
        assert len(written) == sum("past" in str(v.name) for v in inputs)
        for node in written:
            cache_, output = node.inputs[0], node.outputs[0]
            assert cache_ in inputs
            assert cache_ is not None
            assert str(output.name) == str(cache_.name).replace("past.", "present.")


def test_no_cache_is_widened() -> None:
    """A cast of a cache would copy it in every step."""
    for state in (F16, BF16):
        graph = stepping_graph(core("verifier", state=state))
        attention = [node for node in graph.graph if node.op_type == "Attention"]
        assert len(attention) == 2
        for node in attention:
            for value in node.inputs[1:3]:
                assert value is not None
                assert value.producer().op_type == "TensorScatter"  # type: ignore[union-attr]
