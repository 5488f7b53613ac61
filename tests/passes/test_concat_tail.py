"""A round with one update per cache emits what the round with one per step emits."""

from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.core.oracle import Oracle
from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.concat_tail import concat_tail
from specc.passes.fuse_round import fuse_round
from specc.passes.invariants import broken_invariants
from specc.passes.narrow_attention import narrow_attention
from specc_runtime.engines.base import RoundSampling
from tests.models.support import random_weights, tiny_config
from tests.passes.test_fuse_round_features import fused, zero_state
from tests.support.function_models import ort_run
from tests.support.fused_rounds import GREEDY, FusedRounds, generate

ROWS, VOCAB = 64, 61
PROMPT = [5, 1, 33, 60, 2]
SAMPLED = RoundSampling(temperature=0.8, top_k=30, top_p=0.9, min_p=0.02)


def decoder(role: str, family: str = "llama", state: ir.DataType = ir.DataType.FLOAT, **fields: Any) -> ir.Model:
    spec = describe(tiny_config(family, **fields), "tiny")
    model = build_decoder(spec, random_weights(spec), "tiny", role, DecoderShape(ROWS, state=state), "verifier")
    return model if state == ir.DataType.FLOAT else narrow_attention(model)


@cache
def rounds(gamma: int, family: str = "llama", state: ir.DataType = ir.DataType.FLOAT) -> tuple[ir.Model, ir.Model]:
    """The drafter is the verifier's first layer: the same round as it was fused, and with tails."""
    verifier = decoder("verifier", family, state)
    fused = fuse_round(verifier, decoder("drafter", family, state, num_hidden_layers=1), gamma)
    return fused, concat_tail(fused.clone())


def caches(model: ir.Model) -> dict[str, NDArray[Any]]:
    """Caches of random rows: what the steps do with them must agree, whatever they hold."""
    rng = np.random.default_rng(0)
    made = {}
    for value in model.graph.inputs:
        if ".past." in str(value.name):
            assert value.shape is not None
            assert value.dtype is not None
            made[str(value.name)] = rng.standard_normal(value.shape.numpy()).astype(value.dtype.numpy())
    return made


def emitted(model: ir.Model, gamma: int, sampling: RoundSampling, length: int = 40) -> list[list[int]]:
    run = ort_run(model)
    return generate(FusedRounds(model, run, caches(model)), PROMPT, length, gamma, sampling)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("gamma", "family"), [(1, "llama"), (2, "qwen3"), (4, "llama")])
def test_the_same_rounds(gamma: int, family: str, sampling: RoundSampling) -> None:
    fused, tailed = rounds(gamma, family)
    expected = emitted(fused, gamma, sampling)
    assert emitted(tailed, gamma, sampling) == expected
    assert gamma == 1 or len({len(ids) for ids in expected}) > 1


def test_the_same_caches() -> None:
    fused, tailed = rounds(3)
    given = caches(fused) | {
        "tokens": np.array([[3, 7]]), "position": np.array([11]), "uniforms": np.full((1, 7), 0.5, np.float32),
        "temperature": np.ones(1, np.float32), "top_k": np.zeros(1, np.int64), "top_p": np.ones(1, np.float32),
        "min_p": np.zeros(1, np.float32),
    }  # fmt: skip
    expected, found = Oracle(fused).run(given), Oracle(tailed).run(given)
    assert set(found) == {name for name in expected if ".after_" not in name}
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-5)


def test_in_16_bits() -> None:
    """Caches of fp16 and attention computed in it: the joined keys are the very rows that were written."""
    fused, tailed = rounds(3, state=ir.DataType.FLOAT16)
    assert emitted(tailed, 3, GREEDY) == emitted(fused, 3, GREEDY)


def test_one_update_a_cache_and_one_mask_a_step() -> None:
    _, tailed = rounds(4)
    assert list(broken_invariants(tailed)) == []
    assert [v.name for v in tailed.graph.outputs if ".after_" in str(v.name)] == []
    scatters = [node for node in tailed.graph if node.op_type == "TensorScatter"]
    inputs = set(tailed.graph.inputs)
    assert len(scatters) == 6  # key and value of two verifier layers and one of the drafter
    assert all(node.inputs[0] in inputs and node.outputs[0].is_graph_output() for node in scatters)
    masks = {node.inputs[3] for node in tailed.graph if node.op_type == "Attention"}
    assert len(masks) == 5


def test_a_cache_that_something_else_reads_is_refused() -> None:
    fused = rounds(2)[0].clone()
    concat_tail(read := fused.clone())
    assert read.graph.outputs
    between = next(v for v in fused.graph.outputs if v.name == "drafter.after_1.0.key")
    extra = ir.node("Neg", [between], outputs=[ir.Value(name="seen", shape=between.shape, type=between.type)])
    fused.graph.append(extra)
    fused.graph.outputs.append(extra.outputs[0])
    with pytest.raises(ValueError, match=r"'drafter\.past\.0\.key' is read by Neg between its updates"):
        concat_tail(fused)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("gamma", [1, 3])
def test_features_are_handed_from_step_to_step(gamma: int, sampling: RoundSampling) -> None:
    """Rounds and the buffer they leave are those of the graph that writes every prediction."""
    graph = fused(gamma)
    tailed = concat_tail(graph.clone())
    assert list(broken_invariants(tailed)) == []
    assert sum(node.op_type == "TensorScatter" for node in tailed.graph) == 7
    made = [FusedRounds(g, ort_run(legalize(g.clone(), "tensorrt", OPS)), zero_state(graph)) for g in (graph, tailed)]
    rng, text = np.random.default_rng(1), [5, 9, 33, 2, 60, 17]
    for _ in range(4):
        uniforms = rng.integers(0, 2**24, 2 * gamma + 1) * 2.0**-24
        tokens, position = text[-gamma - 1 :], len(text) - gamma - 1
        expected, found = (rounds(tokens, position, uniforms, sampling) for rounds in made)
        assert found == expected
        text += found
    written = slice(None, len(text) - 1)
    features = [rounds.caches["drafter.past.features"][:, written] for rounds in made]
    np.testing.assert_allclose(features[1], features[0], rtol=0, atol=1e-4)
