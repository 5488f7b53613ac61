"""Each family against transformers: tiny random checkpoints in fp32, in one go and step by step, oracle and ORT."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe, known_families
from tests.models.support import (
    SIZES,
    oracle_runner,
    ort_runner,
    reference_model,
    reference_weights,
    tiny_config,
    token_ids,
)

TOKENS = 40
ONE_GO = (TOKENS,)
STEPS = (7, 1, 1, 5, 2, 1, 3, 8, 4, 6, 1, 1)
CASES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "multi_head": {"num_key_value_heads": 4},
    "multi_query": {"num_key_value_heads": 1},
    "tied": {"tie_word_embeddings": True},
    "wide_heads": {"head_dim": 32},
    "narrow_heads": {"head_dim": 8},
    "theta": {"rope_theta": 1_000_000.0},
    "theta_in_parameters": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.5}},
    "linear_in_parameters": {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 300.0}},
    "llama3": {
        "rope_theta": 500.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "llama3_in_parameters": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "llama3_trained_on_max_positions": {
        "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    },
    "yarn": {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
    "yarn_on_max_positions": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "yarn_attention_factor": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 900.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "attention_factor": 0.7,
            "beta_fast": 8.0,
            "beta_slow": 2.0,
        }
    },
    "yarn_mscale": {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "mscale": 0.7,
            "mscale_all_dim": 1.3,
        }
    },
    "yarn_one_mscale": {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "mscale_all_dim": 1.3,
        }
    },
    "yarn_untruncated": {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "truncate": False,
        }
    },
    "epsilon": {"rms_norm_eps": 0.5},
    "unequal_sizes": {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3, "num_hidden_layers": 3},
    "no_layers": {"num_hidden_layers": 0},
}
OWN_CASES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "llama": {
        "attention_bias": {"attention_bias": True},
        "mlp_bias": {"mlp_bias": True},
        "all_biases_tied": {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    },
    "mistral": {
        "no_window": {"sliding_window": None},
        "wide_window": {"sliding_window": TOKENS},
    },
    "qwen2": {
        "window_off": {"use_sliding_window": False, "sliding_window": 4, "max_window_layers": 1},
        "wide_window": {"use_sliding_window": True, "sliding_window": TOKENS, "max_window_layers": 1},
        "window_above_the_layers": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2},
    },
    "qwen3": {
        "attention_bias": {"attention_bias": True},
        "default_head_dim": {"head_dim": None},
        "wide_window": {"use_sliding_window": True, "sliding_window": TOKENS, "max_window_layers": 0},
    },
}
GRID = [
    pytest.param(family, fields, id=f"{family}-{name}")
    for family in known_families()
    for name, fields in {**CASES, **OWN_CASES[family]}.items()
]


def family_config(family: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Qwen 3's own default head is larger than the whole tiny model: the cases that don't test it name a small one."""
    config = tiny_config(family, **({"head_dim": 16} if family == "qwen3" else {}) | dict(fields))
    if "sliding_window" in fields and fields["sliding_window"] is None:
        config["sliding_window"] = None
    return config


@pytest.mark.parametrize(("family", "fields"), GRID)
def test_logits_equal_transformers(family: str, fields: Mapping[str, Any]) -> None:
    config = family_config(family, fields)
    reference = reference_model(config)
    ids = token_ids(TOKENS)
    with torch.no_grad():
        expected = reference(torch.tensor(ids[None])).logits[0].numpy()
    spec = describe(config, "tiny")
    graph = build_decoder(spec, reference_weights(reference), "tiny", "verifier", DecoderShape(TOKENS + 8))
    for runner in (oracle_runner(graph), ort_runner(graph)):
        in_one_go = runner.feed_in(ONE_GO, ids)
        runner.position = 0
        by_steps = runner.feed_in(STEPS, ids)
        assert np.abs(in_one_go - expected).max() <= 1e-4
        assert np.abs(by_steps - expected).max() <= 1e-4


def test_the_cases_cover_every_family() -> None:
    assert set(OWN_CASES) == set(known_families())
    assert SIZES["num_key_value_heads"] < SIZES["num_attention_heads"]
