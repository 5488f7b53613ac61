import math

import numpy as np
import pytest

from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from tests.support.gguf_files import decoder_metadata, write_gguf
from tests.support.refusals import refuses

EMBEDDING = {"token_embd.weight": np.ones((300, 256), np.float32)}
LLAMA3 = {"embedding_length": 256, "rope__freq_base": 500000.0}  # 4 heads of 64, as in Llama 3.2


def scaling_of(tmp_path, changes, factors=None):
    tensors = EMBEDDING if factors is None else EMBEDDING | {"rope_freqs.weight": factors}
    return open_checkpoint(str(write_gguf(tmp_path / "x.gguf", decoder_metadata(**changes), tensors))).config[
        "rope_scaling"
    ]


def llama3_factors(factor, low=1.0, high=4.0, length=8192, theta=500000.0, head_dim=64):
    """As the GGUF converter writes them: one frequency at a time, in the words of Llama's reference code."""
    factors = []
    for index in range(0, head_dim, 2):
        wavelength = 2 * math.pi * theta ** (index / head_dim)
        if wavelength < length / high:
            factors.append(1.0)
        elif wavelength > length / low:
            factors.append(factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


@pytest.mark.parametrize("changes", [{}, {"rope__scaling__type": "none"}, {"rope__scaling__finetuned": False}])
def test_no_scaling(tmp_path, changes):
    assert scaling_of(tmp_path, changes) is None


def test_linear(tmp_path):
    changes = {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}
    assert scaling_of(tmp_path, changes) == {"rope_type": "linear", "factor": 4.0}


def test_yarn(tmp_path):
    changes = {
        "rope__scaling__type": "yarn",
        "rope__scaling__factor": 4.0,
        "rope__scaling__original_context_length": 32,
        "rope__scaling__yarn_beta_fast": 16.0,
        "rope__scaling__yarn_beta_slow": 2.0,
        "rope__scaling__attn_factor": 1.0,
    }
    assert scaling_of(tmp_path, changes) == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
    }


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_is_recognised_by_its_factors(tmp_path, factor):
    assert scaling_of(tmp_path, LLAMA3, llama3_factors(factor)) == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


@pytest.mark.parametrize(
    "factors",
    [
        llama3_factors(8.0, high=8.0),
        llama3_factors(8.0, length=4096),
        llama3_factors(8.0)[:-1],
        llama3_factors(8.0)[::-1].copy(),
        np.zeros(32, np.float32),
        np.full(32, np.nan, np.float32),
    ],
)
def test_factors_of_no_llama3_model_are_refused(tmp_path, factors):
    with refuses(CheckpointError, tmp_path / "x.gguf", "rope_freqs.weight is not a llama3 rope scaling"):
        scaling_of(tmp_path, LLAMA3, factors)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"rope__scaling__type": "longrope", "rope__scaling__factor": 4.0}, "'longrope' is not linear or yarn"),
        ({"rope__scaling__type": "linear"}, "no metadata 'llama.rope.scaling.factor'"),
        (
            {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__attn_factor": 0.5},
            "llama.rope.scaling.attn_factor is not 1.0",
        ),
        ({"rope__scaling__yarn_log_multiplier": 0.1}, "'llama.rope.scaling.yarn_log_multiplier' = 0.1"),
    ],
)
def test_scaling_without_words_in_config_json_is_refused_by_key(tmp_path, changes, found):
    with refuses(CheckpointError, tmp_path / "x.gguf", found):
        scaling_of(tmp_path, changes)


def test_two_scalings_at_once_are_refused(tmp_path):
    changes = LLAMA3 | {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}
    with refuses(CheckpointError, tmp_path / "x.gguf", "both rope_freqs.weight and 'linear'"):
        scaling_of(tmp_path, changes, llama3_factors(8.0))
