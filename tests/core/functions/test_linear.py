from typing import Any

import ml_dtypes
import numpy as np
import pytest

from specc.core.functions.linear import SIGNED_ZERO, UNSIGNED_ZERO, linear, linear_q8
from tests.core.support import floats, run_function


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_linear_multiplies_by_the_transposed_weight(dtype: Any) -> None:
    x, weight = floats(2, 3, 8, seed=1), floats(5, 8, seed=2).astype(dtype)
    y = run_function(linear(), {"x": x, "weight": weight})["y"]
    assert y.dtype == np.float32
    assert np.abs(y - x @ weight.astype(np.float32).T).max() <= 1e-5


@pytest.mark.parametrize(("dtype", "zero_point"), [(np.uint8, UNSIGNED_ZERO), (np.int8, SIGNED_ZERO)])
@pytest.mark.parametrize("block", [2, 4, 8])
def test_linear_q8_reads_codes_around_their_zero_point_by_blocks(block: int, dtype: Any, zero_point: int) -> None:
    rng = np.random.default_rng(block)
    x = floats(2, 3, 8, seed=1)
    codes = (rng.integers(-128, 128, (5, 8)) + zero_point).astype(dtype)
    scale = rng.random((5, 8 // block)).astype(np.float32)
    weight = np.repeat(scale, block, axis=1).astype(np.float64) * (codes.astype(np.float64) - zero_point)
    fed = {"x": x, "codes": codes, "scale": scale}
    y = run_function(linear_q8(), fed, block_size=block, zero_point=zero_point)["y"]
    np.testing.assert_allclose(y, x @ weight.T, rtol=1e-4, atol=1e-4)
