"""EAGLE-3's drafter and what it reads of the verifier, against the same arithmetic in numpy's float64."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch

from specc.assembly.speculators import NAMES
from specc.checkpoint.speculator import FeatureReading
from specc.core.oracle import Oracle
from specc.errors import CheckpointError
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.feature_drafter import build_feature_drafter
from specc.models.features import FeatureTap
from specc.models.spec import DecoderSpec
from specc.models.step_graph import load_tables
from specc.models.weights import WeightLoader
from specc.passes.bake_topology import bake_topology
from specc.passes.invariants import broken_invariants
from tests.models.support import (
    Evaluator,
    OrtEvaluator,
    legalized,
    random_weights,
    reference_model,
    reference_weights,
    tiny_config,
    token_ids,
    weights_from,
    zero_caches,
)
from tests.support.speculators import FeatureDrafterReference, layer_config, speculator_weights

VOCAB, HIDDEN, ROWS, DRAFTER_ROWS = 61, 64, 40, 32
VERIFIER = tiny_config("llama", num_hidden_layers=3)
EVERY_FLAG = [
    {},
    {"norm_before_residual": True, "fc_norm": True},
    {"norm_before_fc": True, "norm_output": True},
    {"norm_before_residual": True, "norm_before_fc": True, "fc_norm": True, "norm_output": True},
]
ENGINES: Mapping[str, Callable[[ir.Model], Evaluator]] = {
    "oracle": lambda model: Oracle(bake_topology(model.clone(), None)),
    "ort": lambda model: OrtEvaluator(legalized(model)),
}


def drafter_spec(layers: int = 1) -> DecoderSpec:
    return replace(describe(layer_config(num_hidden_layers=layers, vocab_size=VOCAB), "tiny"), names=NAMES)


def reading(layers: tuple[int, ...] | None = (0, 2, 3), **flags: bool) -> FeatureReading:
    names = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
    return FeatureReading(layers, *(flags.get(name, False) for name in names))


class Pair:
    """A verifier with a tap and its drafter on one engine; caches and features are carried from call to call."""

    def __init__(self, engine: str, arrays: dict[str, Any], layers: int, flags: dict[str, bool]) -> None:
        spec, read = drafter_spec(layers), reading(**flags)
        self.reference = reference_model(VERIFIER)
        weights = reference_weights(self.reference)
        verifier_spec = describe(VERIFIER, "tiny")
        loader = WeightLoader(weights_from(arrays), "drafter", "drafter.")
        tap = FeatureTap("drafter", read, loader, verifier_spec.layers, HIDDEN, HIDDEN, spec.epsilon)
        shape = DecoderShape(ROWS)
        verifier = build_decoder(verifier_spec, weights, "tiny", "verifier", shape, taps=[tap])
        tables = load_tables(verifier_spec, WeightLoader(weights, "tiny", "verifier."))
        drafter = build_feature_drafter(spec, read, loader, "drafter", DecoderShape(DRAFTER_ROWS), tables, ROWS)
        self.models = {"verifier": verifier, "drafter": drafter}
        self._evaluators = {name: ENGINES[engine](model) for name, model in self.models.items()}
        self._state = {name: zero_caches(model) for name, model in self.models.items()}

    def feed(self, name: str, tokens: Any, position: int, rows: Any) -> Any:
        fed = {"tokens": tokens[None], "position": np.array([position]), "rows": np.asarray(rows, np.int64)}
        outputs = self._evaluators[name].run({**fed, **self._state[name]})
        self._state[name] = {past: outputs[past.replace("past.", "present.")] for past in self._state[name]}
        shared = self._state[name]["past.features.drafter" if name == "verifier" else "past.features"]
        self._state["verifier"]["past.features.drafter"] = self._state["drafter"]["past.features"] = shared
        return outputs["logits"][0]

    @property
    def features(self) -> Any:
        return self._state["drafter"]["past.features"][0]

    def streams(self, tokens: Any) -> list[Any]:
        """The verifier's residual streams before layers 0 and 2, and after the last."""
        seen: list[Any] = []
        layers = self.reference.model.layers
        hooks = [
            reader.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].double().numpy()))
            for reader in (layers[0], layers[2], self.reference.model.norm)
        ]
        with torch.no_grad():
            self.reference(torch.from_numpy(tokens[None]))
        for hook in hooks:
            hook.remove()
        return seen


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("flags", EVERY_FLAG, ids=lambda flags: "+".join(flags) or "none")
def test_rows_of_true_features_then_steps_on_its_own(engine: str, flags: dict[str, bool]) -> None:
    arrays = speculator_weights(layer_config(vocab_size=VOCAB), seed=3, **flags)
    pair = Pair(engine, arrays, 1, flags)
    reference = FeatureDrafterReference(layer_config(vocab_size=VOCAB), arrays, **flags)
    weights = pair.reference.state_dict()
    embedding, head = (weights[name].double().numpy() for name in ("model.embed_tokens.weight", "lm_head.weight"))
    tokens = token_ids(14, seed=5, vocab=VOCAB)
    for start, stop in ((0, 6), (6, 7), (7, 10)):
        pair.feed("verifier", tokens[start:stop], start, [])
    features = reference.fused(pair.streams(tokens[:10]))
    np.testing.assert_allclose(pair.features[:10], features, rtol=1e-5, atol=1e-3)

    pair.feed("drafter", tokens[1:5], 0, [])
    pair.feed("drafter", tokens[5:8], 4, [])
    logits = [pair.feed("drafter", tokens[8:11], 7, [2])[0]]
    logits += [pair.feed("drafter", tokens[i + 1 : i + 2], i, [0])[0] for i in range(10, 13)]
    for row, found in enumerate(logits, 10):
        out, following = reference.run(embedding[tokens[1 : row + 1]], features)
        np.testing.assert_allclose(found, out[-1] @ head.T, rtol=1e-5, atol=5e-4)
        features = np.concatenate([features, following[-1:]])
    np.testing.assert_allclose(pair.features[10:14], features[10:], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_after_the_first_are_ordinary(engine: str) -> None:
    config, flags = layer_config(vocab_size=VOCAB, num_hidden_layers=2), {"norm_before_residual": True}
    arrays = speculator_weights(config, seed=4)
    pair, tokens = Pair(engine, arrays, 2, flags), token_ids(9, vocab=VOCAB)
    pair.feed("verifier", tokens, 0, [])
    found = pair.feed("drafter", tokens[1:], 0, range(8))
    weights = pair.reference.state_dict()
    reference = FeatureDrafterReference(config, arrays, **flags)
    embedded = weights["model.embed_tokens.weight"].double().numpy()[tokens[1:]]
    out, _ = reference.run(embedded, reference.fused(pair.streams(tokens))[:8])
    np.testing.assert_allclose(found, out @ weights["lm_head.weight"].double().numpy().T, rtol=0, atol=2e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_catching_up_leaves_the_verifiers_features_alone(engine: str) -> None:
    pair = Pair(engine, speculator_weights(layer_config(vocab_size=VOCAB)), 1, {})
    tokens = token_ids(9, vocab=VOCAB)
    pair.feed("verifier", tokens, 0, [])
    before = pair.features.copy()
    pair.feed("drafter", tokens[1:4], 0, [])
    np.testing.assert_array_equal(pair.features, before)
    pair.feed("drafter", tokens[4:6], 3, [1])
    changed = np.flatnonzero((pair.features != before).any(axis=1))
    assert changed.tolist() == [5], "the one row after those fed"


def test_the_verifiers_logits_do_not_change_with_a_tap() -> None:
    spec = describe(tiny_config("llama"), "tiny")
    arrays = speculator_weights(layer_config(vocab_size=VOCAB), features=1)
    loader = WeightLoader(weights_from(arrays), "drafter", "drafter.")
    tap = FeatureTap("drafter", reading((1,)), loader, spec.layers, HIDDEN, HIDDEN, 1e-5)
    plain, tapped = (
        OrtEvaluator(
            legalized(build_decoder(spec, random_weights(spec), "tiny", "verifier", DecoderShape(16), taps=taps))
        )
        for taps in ([], [tap])
    )
    fed: dict[str, Any] = {"tokens": token_ids(5)[None], "position": np.zeros(1, np.int64), "rows": np.arange(5)}
    fed |= {f"past.{i}.{part}": np.zeros((1, 2, 16, 16), np.float32) for i in range(2) for part in ("key", "value")}
    fed["past.features.drafter"] = np.zeros((1, 16, HIDDEN), np.float32)
    np.testing.assert_array_equal(plain.run(fed)["logits"], tapped.run(fed)["logits"])


def test_the_graphs_keep_the_invariants_and_name_their_weights_by_owner() -> None:
    flags = {"fc_norm": True, "norm_before_fc": True}
    pair = Pair("oracle", speculator_weights(layer_config(vocab_size=VOCAB), **flags), 1, flags)
    for model in pair.models.values():
        assert list(broken_invariants(model)) == []
    assert {"drafter.fc", "drafter.fc_norm.2", "drafter.input_norm"} <= set(pair.models["verifier"].graph.initializers)
    assert {"verifier.embedding", "verifier.head"} <= set(pair.models["drafter"].graph.initializers)


@pytest.mark.parametrize("name", ["fc.weight", "layers.0.hidden_norm.weight", "layers.0.self_attn.k_proj.weight"])
def test_an_incomplete_drafter_is_refused(name: str) -> None:
    arrays = speculator_weights(layer_config(vocab_size=VOCAB))
    del arrays[name]
    with pytest.raises(CheckpointError, match=f"^drafter: weight '{name}' is missing"):
        Pair("oracle", arrays, 1, {})
