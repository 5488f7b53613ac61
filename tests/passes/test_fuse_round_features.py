"""Rounds of a drafter that reads features: what goes in and out, on both engines."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.assembly.speculators import NAMES
from specc.checkpoint.speculator import FeatureReading
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.feature_drafter import build_feature_drafter
from specc.models.features import FeatureTap
from specc.models.step_graph import load_tables
from specc.models.weights import WeightLoader
from specc.passes.fuse_round import between_steps, first_width, fuse_round
from specc.passes.invariants import broken_invariants
from specc_runtime.engines.base import RoundSampling
from tests.models.support import random_weights, tiny_config, weights_from
from tests.support.function_models import ENGINES, runner
from tests.support.fused_rounds import GREEDY, FusedRounds
from tests.support.speculators import layer_config, speculator_weights

VOCAB, HIDDEN, ROWS, DRAFTER_ROWS = 64, 64, 48, 40
SAMPLED = RoundSampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


@cache
def models() -> tuple[ir.Model, ir.Model]:
    config = tiny_config("llama", vocab_size=VOCAB, num_hidden_layers=2)
    spec, layer = describe(config, "tiny"), layer_config(vocab_size=VOCAB)
    weights, reading = random_weights(spec), FeatureReading((0, 2), True, False, False, False)
    loader = WeightLoader(weights_from(speculator_weights(layer, features=2, seed=7)), "drafter", "drafter.")
    drafter_spec = replace(describe(layer, "drafter"), names=NAMES)
    tap = FeatureTap("drafter", reading, loader, spec.layers, HIDDEN, HIDDEN, drafter_spec.epsilon)
    verifier = build_decoder(spec, weights, "tiny", "verifier", DecoderShape(ROWS), taps=[tap])
    tables = load_tables(spec, WeightLoader(weights, "tiny", "verifier."))
    shape = DecoderShape(DRAFTER_ROWS)
    return verifier, build_feature_drafter(drafter_spec, reading, loader, "drafter", shape, tables, ROWS)


@cache
def fused(gamma: int) -> ir.Model:
    return fuse_round(*models(), gamma)


def zero_state(graph: ir.Model) -> dict[str, NDArray[Any]]:
    states = [v for v in graph.graph.inputs if ".past." in str(v.name)]
    return {str(v.name): np.zeros(tuple(v.shape.numpy()), v.dtype.numpy()) for v in states if v.shape and v.dtype}


@pytest.mark.parametrize("gamma", [1, 3])
def test_features_are_one_state_which_the_verifier_leaves_last(gamma: int) -> None:
    graph = fused(gamma)
    assert list(broken_invariants(graph)) == []
    shapes = {str(v.name): v.shape for v in (*graph.graph.inputs, *graph.graph.outputs)}
    buffer = ir.Shape([1, ROWS, HIDDEN])
    assert shapes["drafter.past.features"] == shapes["drafter.present.features"] == buffer
    assert shapes["tokens"] == ir.Shape([1, gamma + 1])
    assert not [name for name in shapes if name.startswith("verifier.") and "features" in name]
    after = [name for name in shapes if name.startswith("drafter.after_") and name.endswith(".features")]
    assert tuple(after) == between_steps("features", gamma)
    assert len(after) == gamma == len(between_steps("0.key", gamma)) + 1


def test_the_first_step_feeds_what_a_round_leaves() -> None:
    assert [first_width(gamma, features=False) for gamma in (1, 4)] == [2, 2]
    assert [first_width(gamma, features=True) for gamma in (1, 4)] == [2, 5]


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_both_engines_run_the_same_rounds(sampling: RoundSampling) -> None:
    gamma, found = 2, {}
    text = [5, 9, 33, 2, 60, 17]
    for engine in ENGINES:
        rounds = FusedRounds(fused(gamma), runner(fused(gamma), engine), zero_state(fused(gamma)))
        rng, tokens = np.random.default_rng(1), list(text)
        emitted = []
        for _ in range(3):
            uniforms = rng.integers(0, 2**24, 2 * gamma + 1) * 2.0**-24
            emitted.append(rounds(tokens[-gamma - 1 :], len(tokens) - gamma - 1, uniforms, sampling))
            tokens += emitted[-1]
        found[engine] = emitted
    assert found["oracle"] == found["ort"]
