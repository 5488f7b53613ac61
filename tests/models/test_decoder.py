from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from specc.core.oracle import Oracle
from specc.core.topology import Topology, chain
from specc.errors import CheckpointError
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.invariants import broken_invariants
from tests.models.support import (
    VOCAB,
    oracle_runner,
    ort_runner,
    random_decoder,
    random_weights,
    tiny_config,
    token_ids,
    weights_from,
    zero_caches,
)


def described(values: Any) -> dict[str, tuple[Any, ...]]:
    return {v.name: (v.dtype, *(d if isinstance(d, int) else d.value for d in v.shape)) for v in values}


def test_inputs_and_outputs() -> None:
    graph = random_decoder(num_hidden_layers=1).graph
    i64, f32 = ir.DataType.INT64, ir.DataType.FLOAT
    assert described(graph.inputs) == {
        "tokens": (i64, 1, "S"),
        "position": (i64, 1),
        "rows": (i64, "R"),
        "depths": (i64, "S"),
        "block": (ir.DataType.BOOL, "S", "S"),
        "past.0.key": (f32, 1, 2, 48, 16),
        "past.0.value": (f32, 1, 2, 48, 16),
    }
    assert described(graph.outputs) == {
        "logits": (f32, 1, "R", VOCAB),
        "present.0.key": (f32, 1, 2, 48, 16),
        "present.0.value": (f32, 1, 2, 48, 16),
    }


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("layers", [0, 2])
def test_the_graph_keeps_the_invariants(family: str, layers: int) -> None:
    assert list(broken_invariants(random_decoder(family, num_hidden_layers=layers))) == []


def test_a_batch_is_its_sequences_each_at_its_own_position() -> None:
    shape = {"llama": DecoderShape(32, batch=2), "alone": DecoderShape(32)}
    together, alone = (random_decoder(shape=s) for s in shape.values())
    first, second = token_ids(9, seed=1), token_ids(6, seed=2)
    runners = [oracle_runner(alone), oracle_runner(alone)]
    for runner, prompt in zip(runners, (first, second), strict=True):
        runner.feed(prompt)
    caches = {name: np.concatenate([r.state[name] for r in runners]) for name in zero_caches(alone)}
    positions = np.asarray([r.position for r in runners])
    topology = Topology((-1, -1, 1))
    fed = np.stack([token_ids(4, seed=3), token_ids(4, seed=4)])
    outputs = Oracle(together).run(
        {
            "tokens": fed,
            "position": positions,
            "rows": np.arange(4),
            "depths": topology.depths(),
            "block": topology.block(),
            **caches,
        }
    )
    assert list(positions) == [9, 6]
    for row, runner in enumerate(runners):
        assert np.abs(outputs["logits"][row] - runner.feed(fed[row], topology)).max() <= 1e-5
        for name, cache in runner.state.items():
            assert np.abs(outputs[name.replace("past.", "present.")][row] - cache[0]).max() <= 1e-5


def test_only_the_logits_of_the_rows_asked_for() -> None:
    model = random_decoder()
    ids, topology = token_ids(5), chain(4)
    inputs = {"tokens": ids[None], "position": np.zeros(1, np.int64), **zero_caches(model)}
    inputs |= {"depths": topology.depths(), "block": topology.block()}
    oracle = Oracle(model)
    every = oracle.run({**inputs, "rows": np.arange(5)})["logits"]
    some = oracle.run({**inputs, "rows": np.asarray([4, 1])})["logits"]
    np.testing.assert_allclose(some, every[:, [4, 1]], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("fields", [{"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}])
def test_a_16_bit_checkpoint_computes_in_fp32(dtype: Any, fields: dict[str, Any]) -> None:
    spec = describe(tiny_config("llama", **fields), "tiny")
    narrow = {name: tensor.numpy().astype(dtype) for name, tensor in random_weights(spec).items()}
    wide = {name: array.astype(np.float32) for name, array in narrow.items()}
    graphs = [build_decoder(spec, weights_from(w), "tiny", "verifier", DecoderShape(16)) for w in (wide, narrow)]
    ids = token_ids(8)
    expected = oracle_runner(graphs[0]).feed(ids)
    for runner in (oracle_runner(graphs[1]), ort_runner(graphs[1])):
        assert np.abs(runner.feed(ids) - expected).max() <= 1e-4


def test_a_16_bit_cache_rounds_keys_and_values() -> None:
    ids = token_ids(12)
    exact = oracle_runner(random_decoder()).feed(ids)
    narrow = random_decoder(shape=DecoderShape(48, state=ir.DataType.FLOAT16))
    oracle, ort = oracle_runner(narrow), ort_runner(narrow)
    rounded, lowered = oracle.feed(ids), ort.feed(ids)
    assert {cache.dtype for cache in oracle.state.values()} == {cache.dtype for cache in ort.state.values()}
    assert next(iter(oracle.state.values())).dtype == np.float16
    assert 0 < np.sqrt(np.mean((rounded - exact) ** 2)) <= 0.01
    assert np.sqrt(np.mean((lowered - rounded) ** 2)) <= 0.01


def test_weights_are_named_by_their_owner_and_functions_by_the_role() -> None:
    spec = describe(tiny_config("llama", num_hidden_layers=1), "tiny")
    shape = DecoderShape(16)
    own = build_decoder(spec, random_weights(spec), "tiny", "drafter", shape)
    lent = build_decoder(spec, random_weights(spec), "tiny", "drafter", shape, weights_of="verifier")
    assert all(name.startswith("drafter.") for name in own.graph.initializers)
    assert {name.replace("drafter.", "verifier.") for name in own.graph.initializers} == set(lent.graph.initializers)
    assert ("specc", "drafter_layer", "") in lent.functions


def test_models_do_not_share_functions() -> None:
    first, second = random_decoder(), random_decoder()
    assert not {id(f) for f in first.functions.values()} & {id(f) for f in second.functions.values()}


@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight"]
)
def test_an_incomplete_checkpoint_is_refused(name: str) -> None:
    spec = describe(tiny_config("llama"), "tiny")
    arrays = {key: tensor.numpy() for key, tensor in random_weights(spec).items() if key != name}
    with pytest.raises(CheckpointError, match=f"^tiny: weight '{name}' is missing"):
        build_decoder(spec, weights_from(arrays), "tiny", "verifier", DecoderShape(16))
