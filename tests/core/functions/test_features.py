import numpy as np
import pytest

from specc.core.functions.features import feature_rows
from tests.core.support import floats
from tests.support.function_models import ENGINES, F32, I64, graph_of, runner


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("width", [1, 3])
def test_each_sequences_rows_from_its_own_position(engine: str, width: int) -> None:
    shapes = {"features": (F32, [2, 7, 4]), "position": (I64, [2]), "tokens": (I64, [2, "S"])}
    graph = graph_of(feature_rows(), shapes, {"rows": F32}, [feature_rows()])
    features, position = floats(2, 7, 4), np.array([4, 0])
    fed = {"features": features, "position": position, "tokens": np.zeros((2, width), np.int64)}
    expected = np.stack([features[i, p : p + width] for i, p in enumerate(position)])
    np.testing.assert_array_equal(runner(graph, engine)(fed)["rows"], expected)
