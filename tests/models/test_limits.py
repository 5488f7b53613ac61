from typing import Any

import numpy as np
import pytest
import torch

from specc.errors import UnsupportedError
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.limits import check_context, largest_context
from tests.models.published_configs import SUPPORTED
from tests.models.support import oracle_runner, reference_model, reference_weights, tiny_config, token_ids

WINDOW = 9
WINDOWED = [
    ("mistral", {"sliding_window": WINDOW}),
    ("qwen2", {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 1}),
    ("qwen3", {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 0, "head_dim": 16}),
]


@pytest.mark.parametrize(("family", "fields"), WINDOWED)
def test_the_largest_context_is_where_the_window_starts_to_matter(family: str, fields: dict[str, Any]) -> None:
    config = tiny_config(family, **fields)
    reference = reference_model(config)
    spec = describe(config, "tiny")
    limit = largest_context(spec)
    ids = token_ids(limit + 1)
    with torch.no_grad():
        expected = reference(torch.tensor(ids[None])).logits[0].numpy()
    graph = build_decoder(spec, reference_weights(reference), "tiny", "verifier", DecoderShape(limit + 4))
    found = oracle_runner(graph).feed(ids)
    assert limit == WINDOW
    assert np.abs(found[:limit] - expected[:limit]).max() <= 1e-4
    assert np.abs(found[limit] - expected[limit]).max() > 1e-3


@pytest.mark.parametrize(("family", "fields"), WINDOWED)
def test_a_context_beyond_the_window_is_refused_by_its_field(family: str, fields: dict[str, Any]) -> None:
    spec = describe(tiny_config(family, **fields), "tiny")
    check_context(spec, WINDOW, "tiny")
    with pytest.raises(UnsupportedError, match=r"^tiny: context 10 exceeds .*'sliding_window'.*--context 9 or less$"):
        check_context(spec, WINDOW + 1, "tiny")


def test_a_context_beyond_max_position_embeddings_is_refused() -> None:
    spec = describe(tiny_config("llama", max_position_embeddings=64), "tiny")
    check_context(spec, 64, "tiny")
    with pytest.raises(UnsupportedError, match=r"'max_position_embeddings'.*--context 64 or less$"):
        check_context(spec, 65, "tiny")


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("Mistral-7B-v0.1", 4096),
        ("Mistral-7B-Instruct-v0.3", 32768),
        ("Qwen2.5-0.5B-Instruct", 32768),
        ("Qwen2.5-7B-Instruct with its card's YaRN", 131072),
        ("Llama-3.2-1B", 8192 * 32),
        ("deepseek-coder-1.3b-instruct", 65536),
        ("SmolLM2-135M-Instruct", 8192),
    ],
)
def test_a_rope_scaling_moves_the_limit_of_published_models(name: str, limit: int) -> None:
    assert largest_context(describe(SUPPORTED[name], name)) == limit


def test_the_smaller_limit_is_the_one_named() -> None:
    spec = describe(tiny_config("mistral", sliding_window=128), "tiny")
    with pytest.raises(UnsupportedError, match="'max_position_embeddings'"):
        check_context(spec, 200, "tiny")
