from typing import Any

import ml_dtypes
import numpy as np
import pytest

from specc.core.functions.embedding import embed
from tests.core.support import floats, run_function


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_rows_come_out_in_fp32(dtype: Any) -> None:
    table = floats(7, 3).astype(dtype)
    tokens = np.asarray([[6, 0, 2], [1, 1, 5]])
    hidden = run_function(embed(), {"table": table, "tokens": tokens})["hidden"]
    assert hidden.dtype == np.float32
    np.testing.assert_array_equal(hidden, table.astype(np.float32)[tokens])
