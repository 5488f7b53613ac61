import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from specc.checkpoint.speculator import default_feature_layers, is_speculator, open_speculator
from specc.errors import CheckpointError

HIDDEN, VOCABULARY, ROWS = 16, 50, 5
IDS = np.array([1, 4, 5, 20, 49])

LAYER_CONFIG = {
    "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": VOCABULARY,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
}  # fmt: skip

SPECULATORS_CONFIG: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "auto_map": {"": "eagle3.Eagle3SpeculatorConfig"},
    "draft_vocab_size": ROWS,
    "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
    "norm_before_residual": True,
    "speculators_config": {
        "algorithm": "eagle3",
        "default_proposal_method": "greedy",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
        "verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": "org/verifier"},
    },
    "speculators_model_type": "eagle3",
    "speculators_version": "0.3.0",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "transformer_layer_config": LAYER_CONFIG,
}

PUBLISHED_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": ROWS,
    **LAYER_CONFIG,
}


def eagle3_weights(layer: str = "layers.0.") -> dict[str, np.ndarray]:
    shapes = {
        "fc.weight": (HIDDEN, 3 * HIDDEN), "norm.weight": (HIDDEN,), "lm_head.weight": (ROWS, HIDDEN),
        f"{layer}input_layernorm.weight": (HIDDEN,), f"{layer}hidden_norm.weight": (HIDDEN,),
        f"{layer}post_attention_layernorm.weight": (HIDDEN,), f"{layer}self_attn.q_proj.weight": (16, 2 * HIDDEN),
        f"{layer}self_attn.k_proj.weight": (8, 2 * HIDDEN), f"{layer}self_attn.v_proj.weight": (8, 2 * HIDDEN),
        f"{layer}self_attn.o_proj.weight": (HIDDEN, 16), f"{layer}mlp.gate_proj.weight": (24, HIDDEN),
        f"{layer}mlp.up_proj.weight": (24, HIDDEN), f"{layer}mlp.down_proj.weight": (HIDDEN, 24),
    }  # fmt: skip
    generator = np.random.default_rng(0)
    weights = {name: generator.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}
    kept = np.zeros(VOCABULARY, dtype=bool)
    kept[IDS] = True
    return weights | {"d2t": IDS - np.arange(ROWS), "t2d": kept}


def write(folder: Path, config: Mapping[str, Any], weights: dict[str, np.ndarray]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    return folder


def changed(**fields: Any) -> dict[str, Any]:
    return SPECULATORS_CONFIG | fields


def test_a_published_speculators_head_opens(tmp_path: Path) -> None:
    write(tmp_path, SPECULATORS_CONFIG, eagle3_weights())
    drafter = open_speculator(tmp_path, "org/drafter")
    assert (drafter.architecture, drafter.source, drafter.verifier) == ("eagle3", "org/drafter", "org/verifier")
    assert drafter.head_ids is not None
    assert drafter.head_ids.tolist() == IDS.tolist()
    assert drafter.features is not None
    assert drafter.features.layers == (1, 3, 5)
    flags = drafter.features.norm_before_residual, drafter.features.fc_norm, drafter.features.norm_before_fc
    assert flags == (True, False, False)
    assert drafter.layer_config["intermediate_size"] == 24
    assert drafter.shares_embedding
    assert not drafter.shares_head
    expected = eagle3_weights()
    assert set(drafter.weights) == set(expected) - {"d2t", "t2d"}
    for name, tensor in drafter.weights.items():
        np.testing.assert_array_equal(tensor.numpy(), expected[name])


def test_the_authors_own_form_is_read_as_the_same_drafter(tmp_path: Path) -> None:
    write(tmp_path, PUBLISHED_CONFIG, eagle3_weights("midlayer."))
    drafter = open_speculator(tmp_path, "x")
    assert drafter.architecture == "eagle3"
    assert drafter.features is not None
    assert drafter.features.layers is None
    assert drafter.features.resolved_layers(32) == (2, 16, 29)
    assert set(drafter.weights) == set(eagle3_weights()) - {"d2t", "t2d"}
    assert drafter.layer_config["num_attention_heads"] == 2
    assert "draft_vocab_size" not in drafter.layer_config


def test_a_head_without_weights_is_the_verifiers(tmp_path: Path) -> None:
    weights = eagle3_weights()
    del weights["lm_head.weight"]
    assert open_speculator(write(tmp_path, SPECULATORS_CONFIG, weights), "x").shares_head


def test_a_full_vocabulary_needs_no_map(tmp_path: Path) -> None:
    weights = {k: v for k, v in eagle3_weights().items() if k not in ("d2t", "t2d")}
    weights["lm_head.weight"] = np.zeros((VOCABULARY, HIDDEN), np.float16)
    drafter = open_speculator(write(tmp_path, changed(draft_vocab_size=VOCABULARY), weights), "x")
    assert drafter.head_ids is None


def test_drafters_are_told_from_models(tmp_path: Path) -> None:
    for name, config in {"a": SPECULATORS_CONFIG, "b": PUBLISHED_CONFIG, "c": LAYER_CONFIG}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    assert [is_speculator(tmp_path / name) for name in "abcd"] == [True, True, False, False]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"speculators_model_type": "eagle4"}, "did you mean 'eagle3'"),
        ({"speculators_model_type": 3}, "no speculators_model_type"),
        ({"transformer_layer_config": None}, "transformer_layer_config"),
        ({"eagle_aux_hidden_state_layer_ids": "all"}, "no list of layers"),
        ({"norm_before_residual": "yes"}, "expected true or false"),
        ({"draft_vocab_size": 6}, "expected whole numbers for 6 head rows"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 3]}, r"'fc.weight' is \[16, 48\], config.json implies \[16, 32\]"),
        ({"transformer_layer_config": {**LAYER_CONFIG, "vocab_size": 40}}, "token 49 of a vocabulary of 40"),
    ],
)
def test_a_config_that_says_something_else_is_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    write(tmp_path, changed(**fields), eagle3_weights())
    with pytest.raises(CheckpointError, match=message):
        open_speculator(tmp_path, "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fc.weight": None}, "'fc.weight' is missing"),
        ({"d2t": None}, "no d2t"),
        ({"d2t": np.array([3, 0, 0, 0, 0])}, "do not ascend"),
        ({"d2t": np.zeros(5, np.float32)}, "expected whole numbers"),
        ({"lm_head.weight": np.zeros((4, HIDDEN), np.float16)}, r"implies \[5, 'any'\]"),
        ({"layers.0.self_attn.k_proj.weight": np.zeros((8, HIDDEN), np.float16)}, r"implies \['any', 32\]"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    weights = {name: array for name, array in (eagle3_weights() | change).items() if array is not None}
    write(tmp_path, SPECULATORS_CONFIG, weights)
    with pytest.raises(CheckpointError, match=message):
        open_speculator(tmp_path, "x")


def test_default_layers_of_few_layers_do_not_repeat() -> None:
    assert default_feature_layers(30) == (2, 15, 27)
    assert default_feature_layers(3) == (0, 1, 2)
    assert default_feature_layers(1) == (0, 1)
