"""Uniforms made on the device are the runtime's, to the bit."""

import jax
import numpy as np
import pytest

from specc.backends.xla.threefry import round_uniforms
from specc_runtime import rng

DEVICE = jax.jit(round_uniforms, static_argnums=3)


@pytest.mark.parametrize("gamma", [1, 4, 16])
@pytest.mark.parametrize("seed", [0, 123456789012345678, 2**64 - 1])
def test_uniforms_are_the_runtimes(seed: int, gamma: int) -> None:
    key = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    for sample, committed in ((0, 1), (7, 100), (65535, 2**31 - 1)):
        found = np.asarray(DEVICE(key, np.uint32(sample), np.int32(committed), gamma))
        expected = np.concatenate(rng.round_uniforms(seed, sample, committed, gamma))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
