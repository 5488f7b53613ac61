"""Rotary frequencies from config.json: plain, linear, llama3 and YaRN scaling.

Two spellings exist: `rope_theta` + `rope_scaling` (transformers 4) and one object `rope_parameters` (transformers 5).
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from specc.models.config import ConfigReader
from specc.models.spec import RopeSpec

Frequencies = NDArray[np.float64]
Scaling = Callable[[ConfigReader, Frequencies, float, int, int], RopeSpec]


def read_rope(config: ConfigReader, head_dim: int, context: int) -> RopeSpec:
    """The frequencies a config asks for. `context`: its max_position_embeddings."""
    theta = config.number("rope_theta", 10_000.0, above=1.0)
    config.only("partial_rotary_factor", 1.0)
    spellings = [field for field in ("rope_scaling", "rope_parameters") if config.has(field)]
    if not spellings:
        return RopeSpec(tuple(_frequencies(theta, head_dim)))
    if len(spellings) > 1 and config.raw("rope_scaling") != config.raw("rope_parameters"):
        raise config.refuse("rope_scaling", "contradicts 'rope_parameters'", "keep one of them")
    scaling = config.section(spellings[0])
    scaling.only("partial_rotary_factor", 1.0)
    theta = scaling.number("rope_theta", theta, above=1.0)
    spec = _scaling_of(scaling)(scaling, _frequencies(theta, head_dim), theta, head_dim, context)
    scaling.finish()
    return spec


def _frequencies(theta: float, head_dim: int) -> Frequencies:
    return np.asarray(theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim))


def _scaling_of(scaling: ConfigReader) -> Scaling:
    field = "rope_type" if scaling.has("rope_type") or not scaling.has("type") else "type"
    kind = scaling.raw(field)
    scaling.raw("type")
    if kind is None:
        return _default
    if not isinstance(kind, str) or kind not in _SCALINGS:
        raise scaling.wrong(field, f"one of {', '.join(_SCALINGS)}")
    return _SCALINGS[kind]


def _default(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    return RopeSpec(tuple(inv_freq))


def _linear(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    """Positions interpolated: every frequency divided by `factor` (Chen et al. 2023, Position Interpolation)."""
    factor = scaling.number("factor")
    return RopeSpec(tuple(inv_freq / factor), reach=int(context * factor))


def _llama3(scaling: ConfigReader, inv_freq: Frequencies, theta: float, head_dim: int, context: int) -> RopeSpec:
    """Llama 3.1: long wavelengths divided by `factor`, short ones kept, a linear blend between."""
    factor, low = scaling.number("factor"), scaling.number("low_freq_factor")
    high = scaling.number("high_freq_factor", above=low)
    trained = scaling.integer("original_max_position_embeddings", context)
    wavelength = 2 * math.pi / inv_freq
    blend = np.clip((trained / wavelength - low) / (high - low), 0.0, 1.0)
    return RopeSpec(tuple((1 - blend) * inv_freq / factor + blend * inv_freq), reach=int(trained * factor))


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
    ramp = np.clip((np.arange(head_dim // 2) - first) / ((last - first) or 0.001), 0.0, 1.0)
    scaled = inv_freq / factor * ramp + inv_freq * (1 - ramp)
    return RopeSpec(tuple(scaled), _yarn_magnitude(scaling, factor), reach=int(trained * factor))


def _yarn_magnitude(scaling: ConfigReader, factor: float) -> float:
    """The factor on cos and sin: given outright, from DeepSeek's mscale pair, or 0.1 ln(factor) + 1."""

    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    given, *pair = (scaling.has(field) for field in ("attention_factor", "mscale", "mscale_all_dim"))
    if given:
        return scaling.number("attention_factor")
    if all(pair):
        return magnitude(scaling.number("mscale")) / magnitude(scaling.number("mscale_all_dim"))
    return magnitude(1.0)


_SCALINGS: Mapping[str, Scaling] = {"default": _default, "linear": _linear, "llama3": _llama3, "yarn": _yarn}
