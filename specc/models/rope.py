"""Rotary frequencies from config.json: plain, linear, llama3 and YaRN scaling.

Two spellings exist: `rope_theta` + `rope_scaling` (transformers 4) and one object `rope_parameters` (transformers 5).
"""

import math

import numpy as np
from numpy.typing import NDArray

from specc.models.config import ConfigReader
from specc.models.spec import RopeSpec

Frequencies = NDArray[np.float64]


def read_rope(config: ConfigReader, head_dim: int, context: int, *, default_theta: float = 10_000.0) -> RopeSpec:
    """The frequencies a config asks for. `context`: its max_position_embeddings."""
    theta = config.number("rope_theta", default_theta)
    scaling = None
    if config.has("rope_parameters"):
        scaling = config.section("rope_parameters")
        theta = scaling.number("rope_theta", theta)
        scaling.only("partial_rotary_factor", 1.0)
    if config.has("rope_scaling"):
        scaling = config.section("rope_scaling")
        scaling.number("rope_theta", theta)
    inv_freq = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling is None:
        return RopeSpec(tuple(inv_freq))
    kind = _kind(scaling)
    spec = _SCALINGS[kind](scaling, inv_freq, theta, head_dim, context)
    scaling.finish()
    return spec


def _kind(scaling: ConfigReader) -> str:
    old = scaling.raw("type")
    new = scaling.raw("rope_type")
    kind = new if new is not None else old if old is not None else "default"
    if kind not in _SCALINGS:
        known = ", ".join(_SCALINGS)
        raise scaling.refuse("rope_type", f"is {kind!r}", f"supported: {known}")
    return str(kind)


def _default(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    return RopeSpec(tuple(inv_freq))


def _linear(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    """Positions interpolated: every frequency divided by `factor` (Chen et al. 2023, Position Interpolation)."""
    return RopeSpec(tuple(inv_freq / scaling.number("factor")))


def _llama3(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    """Llama 3.1: long wavelengths divided by `factor`, short ones kept, a linear blend between."""
    factor = scaling.number("factor")
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    trained = scaling.integer("original_max_position_embeddings")
    wavelength = 2 * math.pi / inv_freq
    blend = np.clip((trained / wavelength - low) / (high - low), 0.0, 1.0)
    return RopeSpec(tuple((1 - blend) * inv_freq / factor + blend * inv_freq))


def _yarn(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    """YaRN (Peng et al. 2023): interpolation below `beta_slow` turns, extrapolation above `beta_fast`, ramp between."""
    trained = scaling.integer("original_max_position_embeddings", context)
    factor = scaling.number("factor", context / trained)
    fast, slow = scaling.number("beta_fast", 32.0), scaling.number("beta_slow", 1.0)

    def dimension(turns: float) -> float:
        return head_dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = dimension(fast), dimension(slow)
    if scaling.flag("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - first) / max(last - first, 0.001), 0.0, 1.0)
    return RopeSpec(tuple(inv_freq / factor * ramp + inv_freq * (1 - ramp)), _yarn_magnitude(scaling, factor))


def _yarn_magnitude(scaling: ConfigReader, factor: float) -> float:
    """The factor on cos and sin: given outright, from DeepSeek's mscale pair, or 0.1 ln(factor) + 1."""

    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    given = scaling.has("attention_factor")
    pair = scaling.has("mscale") and scaling.has("mscale_all_dim")
    if given:
        return scaling.number("attention_factor")
    if pair:
        return magnitude(scaling.number("mscale")) / magnitude(scaling.number("mscale_all_dim"))
    return magnitude(1.0)


_SCALINGS = {"default": _default, "linear": _linear, "llama3": _llama3, "yarn": _yarn}
