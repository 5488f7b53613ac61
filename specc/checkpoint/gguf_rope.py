"""Rope scaling as a GGUF file states it, in config.json's words."""

from typing import Any

import numpy as np

from specc.checkpoint.gguf_file import GgufFile
from specc.checkpoint.gguf_names import ROPE_FACTORS
from specc.checkpoint.gguf_tensor import gguf_tensor
from specc.errors import CheckpointError

_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_LLAMA3_TOLERANCE = 1e-4  # relative; converters compute the factors in float32
_YARN_OPTIONAL = {"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"}
_NEUTRAL = {"attn_factor": 1.0, "yarn_attn_factor": 1.0, "yarn_ext_factor": 1.0}
# Every part of `ARCH.rope.scaling` that is read or known to change nothing.
SCALING_KEYS = {"type", "factor", "original_context_length", "finetuned", *_YARN_OPTIONAL, *_NEUTRAL}


def rope_scaling(gguf: GgufFile, prefix: str, theta: float, head_dim: int) -> dict[str, Any] | None:
    """config.json's `rope_scaling`, or None where there is none.

    prefix: the architecture. theta: base of the rotary frequencies. Raises CheckpointError for a scaling that
    config.json has no words for.
    """
    factors = _frequency_factors(gguf)
    metadata, path = gguf.metadata, gguf.file.path
    kind = metadata.text(f"{prefix}.rope.scaling.type") or "none"
    if factors is not None:
        if kind != "none":
            raise CheckpointError(f"{path}: has both {ROPE_FACTORS} and {kind!r} rope scaling; specc applies only one")
        return _llama3_scaling(gguf, factors, theta, head_dim)
    if kind == "none":
        return None
    for name, neutral in _NEUTRAL.items():
        if metadata.number(f"{prefix}.rope.scaling.{name}") not in (None, neutral):
            raise CheckpointError(f"{path}: {prefix}.rope.scaling.{name} is not {neutral}; specc has no such scaling")
    factor = metadata.required(f"{prefix}.rope.scaling.factor", metadata.number(f"{prefix}.rope.scaling.factor"))
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return {"rope_type": "yarn", "factor": factor} | _yarn_options(gguf, prefix)
    raise CheckpointError(
        f"{path}: {prefix}.rope.scaling.type {kind!r} is not linear or yarn; specc has no such scaling"
    )


def _yarn_options(gguf: GgufFile, prefix: str) -> dict[str, Any]:
    metadata = gguf.metadata
    length = metadata.integer(f"{prefix}.rope.scaling.original_context_length")
    options: dict[str, Any] = {} if length is None else {"original_max_position_embeddings": length}
    for name, field in _YARN_OPTIONAL.items():
        value = metadata.number(f"{prefix}.rope.scaling.{name}")
        if value is not None:
            options[field] = value
    return options


def _frequency_factors(gguf: GgufFile) -> np.ndarray | None:
    """The file's per-frequency divisors `[head_dim / 2]`, None if it has none."""
    info = gguf.tensors.get(ROPE_FACTORS)
    return None if info is None else gguf_tensor(gguf, info, ROPE_FACTORS).numpy().reshape(-1)


def _llama3_scaling(gguf: GgufFile, factors: np.ndarray, theta: float, head_dim: int) -> dict[str, Any]:
    """The llama3 scaling whose factors these are; the file holds its outcome, not its parameters.

    All Llama 3 models share every parameter but the factor, which is the largest divisor.
    """
    scaling = {"rope_type": "llama3", "factor": float(factors.max()), **_LLAMA3}
    if factors.size == head_dim // 2 and factors.min() >= 1.0:
        expected = _llama3_factors(scaling, theta, head_dim)
        if np.allclose(factors, expected, rtol=_LLAMA3_TOLERANCE, atol=0.0):
            return scaling
    raise CheckpointError(
        f"{gguf.file.path}: {ROPE_FACTORS} is not a llama3 rope scaling with the parameters of Llama 3.1 to 3.3; "
        "take the model as safetensors"
    )


def _llama3_factors(scaling: dict[str, Any], theta: float, head_dim: int) -> np.ndarray:
    """Divisors of the rotary frequencies: 1 for short waves, `factor` for long ones, blended between."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * theta ** -(np.arange(0, head_dim, 2) / head_dim) / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return np.asarray(1.0 / ((1.0 - smooth) / scaling["factor"] + smooth))
