"""Frequencies and tables against transformers' own rotary module, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specc.errors import UnsupportedError
from specc.models.families import describe
from specc.models.spec import RopeSpec
from tests.models.published_configs import SUPPORTED
from tests.models.support import tiny_config

LLAMA_TYPES = [name for name, config in SUPPORTED.items() if config["model_type"] == "llama"]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def rope(**fields: Any) -> RopeSpec:
    return describe(tiny_config("llama", **fields), "tiny").rope


@pytest.mark.parametrize("name", LLAMA_TYPES)
def test_tables_of_published_models_equal_transformers(name: str) -> None:
    fields = {key: value for key, value in SUPPORTED[name].items() if key != "model_type"}
    module = LlamaRotaryEmbedding(AutoConfig.for_model("llama", **fields))
    positions = 2048
    cos, sin = module(torch.zeros(1), torch.arange(positions)[None])
    half = cos.shape[-1] // 2
    for found, expected in zip(describe(SUPPORTED[name], name).rope.tables(positions), (cos, sin), strict=True):
        assert found.dtype == np.float32
        assert np.abs(found - expected[0, :, :half].numpy()).max() <= 3e-4


def test_both_spellings_mean_the_same() -> None:
    old = rope(rope_theta=500.0, rope_scaling={"type": "linear", "factor": 2.0})
    assert old == rope(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0})
    assert old == rope(rope_scaling={"rope_type": "linear", "type": "linear", "factor": 2.0, "rope_theta": 500.0})


def test_the_inner_base_wins() -> None:
    assert rope(rope_theta=7.0, rope_parameters={"rope_theta": 500.0}) == rope(rope_theta=500.0)
    assert rope(rope_theta=7.0, rope_scaling={"rope_theta": 500.0}) == rope(rope_theta=500.0)


def test_no_scaling_in_any_spelling() -> None:
    plain = rope()
    assert plain == rope(rope_theta=10_000) == rope(rope_scaling={}) == rope(rope_scaling={"type": "default"})
    assert plain.reach == 0
    assert plain.magnitude == 1.0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling.type"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope_scaling.rope_type"),
        ({"rope_parameters": {"rope_type": "proportional"}}, "rope_parameters.rope_type"),
        ({"rope_scaling": {"rope_type": ["yarn"]}}, "rope_scaling.rope_type"),
        ({"rope_scaling": {"rope_type": "default", "mrope_section": [4, 4]}}, "rope_scaling.mrope_section"),
        ({"rope_scaling": {"rope_type": "default", "factor": 2.0}}, "rope_scaling.factor"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor"),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "rope_scaling.factor"),
        ({"rope_scaling": {"type": "linear", "factor": -2.0}}, "rope_scaling.factor"),
        ({"rope_scaling": "linear"}, "rope_scaling"),
        ({"rope_scaling": {**YARN, "truncate": "no"}}, "rope_scaling.truncate"),
        ({"rope_scaling": {**YARN, "attention_factor": "1"}}, "rope_scaling.attention_factor"),
        ({"rope_scaling": {**YARN, "extrapolation_factor": 1.0}}, "rope_scaling.extrapolation_factor"),
        ({"rope_scaling": {**LLAMA3, "high_freq_factor": 1.0}}, "rope_scaling.high_freq_factor"),
        ({"rope_scaling": {**LLAMA3, "low_freq_factor": None}}, "rope_scaling.low_freq_factor"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "rope_parameters.full_attention"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters.partial_rotary_factor"),
        ({"partial_rotary_factor": 0.25}, "partial_rotary_factor"),
        ({"rope_theta": 1.0}, "rope_theta"),
        ({"rope_theta": "1e4"}, "rope_theta"),
        ({"rope_scaling": YARN, "rope_parameters": {"rope_type": "default"}}, "rope_scaling"),
    ],
)
def test_what_is_not_built_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^tiny: config\\.json field '{field}' "):
        rope(**fields)


def test_the_reach_of_each_scaling() -> None:
    assert rope(rope_scaling={"type": "linear", "factor": 2.5}).reach == 160
    assert rope(rope_scaling=YARN).reach == 64
    assert rope(rope_scaling=LLAMA3).reach == 128


def test_tables_start_at_no_rotation() -> None:
    cos, sin = RopeSpec((1.0, 0.5), magnitude=1.5).tables(3)
    assert cos.shape == sin.shape == (3, 2)
    assert (cos[0] == 1.5).all()
    assert (sin[0] == 0).all()
    assert np.abs(sin[2] - 1.5 * np.sin([2.0, 1.0])).max() <= 1e-6
