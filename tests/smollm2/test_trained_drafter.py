"""A drafter of the real model's sizes, in the speculators format and never trained: it changes nothing."""

from pathlib import Path

import numpy as np
import pytest

from specc.checkpoint import open_checkpoint
from specc_runtime import SamplingParams
from tests.smollm2.conftest import MODEL
from tests.support.speculators import layer_config, speculator_config, speculator_weights, write_speculator

HEAD_ROWS, FEATURE_LAYERS = 8192, (2, 15, 27)
SIZES = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size",
    "max_position_embeddings", "rms_norm_eps", "rope_theta",
)  # fmt: skip
PROMPTS = ("The lighthouse keeper had not spoken", "def fibonacci(n):\n    ")


@pytest.fixture(scope="module")
def untrained(compiled, tmp_path_factory) -> Path:
    config = open_checkpoint(MODEL).config
    layer = layer_config(head_dim=64, **{name: config[name] for name in SIZES})
    flags = {"norm_before_residual": True, "fc_norm": True}
    wide = speculator_weights(layer, **flags)
    weights = {name: (0.1 * array + 0.9 * ("norm" in name)).astype(np.float16) for name, array in wide.items()}
    ids = np.sort(np.random.default_rng(0).choice(config["vocab_size"], HEAD_ROWS, replace=False))
    written = speculator_config(layer, head_rows=HEAD_ROWS, feature_layers=FEATURE_LAYERS, **flags)
    return write_speculator(tmp_path_factory.mktemp("drafter"), written, weights, ids)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["reference", "int8"])
def test_an_untrained_drafter_changes_nothing(engines, untrained: Path, precision: str) -> None:
    engine = engines(str(untrained), precision)
    params = SamplingParams(max_new_tokens=100, ignore_eos=True)
    for prompt in PROMPTS:
        plain = engine.generate(prompt, params, plain=True).finish().ids
        for gamma in (1, 4, 8):
            generation = engine.generate(prompt, params, gamma=gamma).finish()
            assert generation.ids == plain
            stats = generation.stats
            assert stats.spec_decode_num_accepted_tokens <= 0.05 * stats.spec_decode_num_draft_tokens
