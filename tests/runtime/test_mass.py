import numpy as np
import pytest

from specc_runtime.mass import BLOCK, block_masses, mass


@pytest.mark.parametrize("size", [1, 3, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_block_masses_sum_to_the_mass(size: int, dtype: type) -> None:
    weights = np.random.default_rng(size).random(size).astype(dtype)
    expected = [weights[i : i + BLOCK].sum(dtype=np.float64) for i in range(0, size, BLOCK)]
    assert np.allclose(block_masses(weights), expected, rtol=1e-6, atol=0)
    assert mass(weights) == pytest.approx(sum(expected), rel=1e-6)
