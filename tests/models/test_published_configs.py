import pytest

from specc.errors import UnsupportedError
from specc.models.families import describe
from tests.models.published_configs import REFUSED, SIZES, SUPPORTED


@pytest.mark.parametrize("name", SUPPORTED)
def test_a_published_config_is_read_as_its_model(name: str) -> None:
    spec = describe(SUPPORTED[name], name)
    a = spec.attention
    found = (spec.layers, spec.hidden, spec.mlp.intermediate, a.heads, a.kv_heads, a.head_dim, spec.vocab_rows)
    assert (*found, spec.context, spec.tied_head, a.window) == SIZES[name]
    assert a.qkv_bias == (spec.model_type == "qwen2")
    assert a.qk_norm == (spec.model_type == "qwen3")
    assert not a.output_bias
    assert not spec.mlp.bias
    assert a.scale == a.head_dim**-0.5
    assert len(spec.rope.inv_freq) == a.head_dim // 2


def test_every_published_config_has_its_expected_reading() -> None:
    assert set(SIZES) == set(SUPPORTED)


@pytest.mark.parametrize(
    ("name", "theta"),
    [
        ("SmolLM2-135M-Instruct", 1e5),
        ("Meta-Llama-3-8B-Instruct", 5e5),
        ("Llama-2-7b-hf", 1e4),
        ("Qwen3-0.6B", 1e6),
        ("Qwen3-4B as transformers 5 saves it", 1e6),
    ],
)
def test_the_base_of_the_rotation_is_the_published_one(name: str, theta: float) -> None:
    spec = describe(SUPPORTED[name], name)
    assert spec.rope.inv_freq[1] == pytest.approx(theta ** (-2 / spec.attention.head_dim), rel=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_built_is_refused_by_its_field(name: str) -> None:
    field, config = REFUSED[name]
    with pytest.raises(UnsupportedError) as refusal:
        describe(config, name)
    assert f"config.json field '{field}'" in str(refusal.value)
    assert str(refusal.value).startswith(f"{name}: ")
    assert "\n" not in str(refusal.value)
