"""What the shared readers refuse and what they take for granted; sizes read right are in test_published_configs."""

from typing import Any

import pytest

from specc.errors import UnsupportedError
from specc.models.families import describe, known_families
from tests.models.support import tiny_config


@pytest.mark.parametrize(
    ("family", "fields", "field"),
    [
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("llama", {"num_key_value_heads": 8}, "num_key_value_heads"),
        ("llama", {"hidden_size": 66}, "hidden_size"),
        ("llama", {"hidden_size": 60, "head_dim": None}, "hidden_size"),
        ("llama", {"head_dim": 15}, "head_dim"),
        ("llama", {"head_dim": 1}, "head_dim"),
        ("llama", {"head_dim": 10**9}, "head_dim"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act"),
        ("llama", {"hidden_size": "64"}, "hidden_size"),
        ("llama", {"num_hidden_layers": -1}, "num_hidden_layers"),
        ("llama", {"vocab_size": 61.0}, "vocab_size"),
        ("llama", {"rms_norm_eps": "1e-6"}, "rms_norm_eps"),
        ("llama", {"tie_word_embeddings": "false"}, "tie_word_embeddings"),
        ("llama", {"attention_bias": 1}, "attention_bias"),
        ("llama", {"mlp_bias": "no"}, "mlp_bias"),
        ("llama", {"intermediate_size": None}, "intermediate_size"),
        ("mistral", {"sliding_window": 0}, "sliding_window"),
        ("mistral", {"sliding_window": "4096"}, "sliding_window"),
        ("mistral", {"num_key_value_heads": None}, "num_key_value_heads"),
        ("mistral", {"attention_bias": True}, "attention_bias"),
        ("qwen2", {"use_mrope": True}, "use_mrope"),
        ("qwen2", {"use_sliding_window": 1}, "use_sliding_window"),
        ("qwen2", {"layer_types": ["full_attention"]}, "layer_types"),
        ("qwen2", {"layer_types": [["full_attention"], "full_attention"]}, "layer_types"),
        ("qwen2", {"layer_types": ["full_attention", "chunked_attention"]}, "layer_types"),
        ("qwen2", {"layer_types": "full_attention"}, "layer_types"),
        ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ("qwen3", {"attention_bias": None, "qkv_bias": True}, "qkv_bias"),
        ("qwen3", {"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
    ],
)
def test_a_field_specc_can_not_honour_is_named(family: str, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^tiny: config\\.json field '{field}' "):
        describe(tiny_config(family, **fields), "tiny")


@pytest.mark.parametrize("family", known_families())
def test_an_unknown_field_is_refused_unless_vouched_for(family: str) -> None:
    config = tiny_config(family, logit_scale=0.5)
    with pytest.raises(UnsupportedError, match=r"'logit_scale' is 0\.5.*--ignore-config logit_scale"):
        describe(config, "tiny")
    assert describe(config, "tiny", ignore=["logit_scale"]) == describe(tiny_config(family), "tiny")


def test_an_unknown_model_type_lists_the_known_ones() -> None:
    with pytest.raises(
        UnsupportedError, match=r"'model_type' is 'falcon'; expected one of llama, mistral, qwen2, qwen3"
    ):
        describe({"model_type": "falcon"}, "tiny")
    with pytest.raises(UnsupportedError, match="'model_type' is \\['llama'\\]"):
        describe({"model_type": ["llama"]}, "tiny")


def test_swish_is_silu() -> None:
    assert describe(tiny_config("llama", hidden_act="swish"), "x") == describe(tiny_config("llama"), "x")


@pytest.mark.parametrize(
    ("family", "fields", "window"),
    [
        ("mistral", {}, 4096),
        ("mistral", {"sliding_window": 12}, 12),
        ("qwen2", {"use_sliding_window": True}, None),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}, 4096),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 12}, 12),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 2, "sliding_window": 12}, None),
        ("qwen2", {"use_sliding_window": False, "max_window_layers": 0, "sliding_window": 12}, None),
        (
            "qwen3",
            {"use_sliding_window": True, "sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"]},
            12,
        ),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 12, "layer_types": ["full_attention"] * 2}, None),
    ],
)
def test_the_window_is_read_as_transformers_does(family: str, fields: dict[str, Any], window: int | None) -> None:
    assert describe(tiny_config(family, **fields), "tiny").attention.window == window


def test_a_null_window_is_no_window() -> None:
    assert describe({**tiny_config("mistral"), "sliding_window": None}, "tiny").attention.window is None
    config = {**tiny_config("qwen2"), "sliding_window": None, "use_sliding_window": True, "max_window_layers": 0}
    assert describe(config, "tiny").attention.window is None
