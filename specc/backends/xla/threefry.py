"""The runtime's uniforms, computed on the device: the same bits, for the same keys (`specc_runtime.rng`)."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from specc_runtime.rng import PARITY, ROTATIONS, round_tags

Value = Any


def round_uniforms(seed: Value, sample: Value, committed: Value, gamma: int) -> Value:
    """Uniforms f32 `[2 gamma + 1]` of a round of `gamma` drafted tokens: drafts, acceptances, the last draw.

    seed: u32[2], the more significant word first. sample: u32. committed: i32, when the round starts.
    """
    tags = jnp.asarray(np.array(round_tags(0, gamma), np.uint32)) | sample << 16
    words = threefry2x32(seed, jnp.full(tags.shape, committed).astype(jnp.uint32), tags)
    return (words >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def threefry2x32(key: Value, x0: Value, x1: Value) -> Value:
    """First output words of Threefry2x32-20 (Salmon et al. 2011) for counters u32 `(x0[i], x1[i])` under key u32[2].

    In plain arithmetic: JAX's own is a custom call on some devices, which hosts without JAX lack.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation) | x1 >> np.uint32(32 - rotation)) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0
