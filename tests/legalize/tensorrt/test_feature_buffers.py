"""Feature buffers in four dimensions: the same features, read and written in the same rows."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc.backends.record import CoreModel
from specc.backends.tensorrt.graphs import lowered_state, stepping_graph
from specc.core.oracle import Oracle
from tests.passes.test_fuse_round_features import DRAFTER_ROWS, HIDDEN, ROWS, VOCAB, models
from tests.support.function_models import Array, ort_run

CORES = {
    "verifier": CoreModel("verifier", models()[0], VOCAB, ROWS),
    "drafter": CoreModel("drafter", models()[1], VOCAB, DRAFTER_ROWS),
}


def inputs(role: str, width: int, asked: list[int]) -> dict[str, NDArray[Any]]:
    """A step at row 6, with state of random rows."""
    rng = np.random.default_rng(0)
    state = {s.name: rng.standard_normal(s.shape).astype(np.float32) for s in CORES[role].state()}
    tokens = rng.integers(0, VOCAB, (1, 16))[:, :width]
    return {"tokens": tokens, "position": np.array([6]), "rows": np.array(asked)} | state


def lowered(role: str, fed: dict[str, NDArray[Any]]) -> dict[str, Array]:
    """The program's results, its state as the core graph has it."""
    shapes = {s.name: s.shape for s in lowered_state(CORES[role])}
    made = ort_run(stepping_graph(CORES[role]))({n: a.reshape(shapes.get(n, a.shape)) for n, a in fed.items()})
    return {name: array[:, 0] if "features" in name else array for name, array in made.items()}


@pytest.mark.parametrize(("role", "asked"), [("verifier", [0, 1, 2, 3]), ("drafter", [3])])
def test_a_step_is_the_core_graphs(role: str, asked: list[int]) -> None:
    fed = inputs(role, 4, asked)
    topology = {"depths": np.arange(4), "block": np.tri(4, dtype=np.bool_)}
    expected, found = Oracle(CORES[role].graph).run(fed | topology), lowered(role, fed)
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-4)


def test_padding_moves_no_prediction() -> None:
    """Of a step fed three tokens and five more behind them the prediction is in the row after the third."""
    exact, padded = lowered("drafter", inputs("drafter", 3, [2])), lowered("drafter", inputs("drafter", 8, [2]))
    np.testing.assert_allclose(padded["logits"], exact["logits"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(padded["present.features"], exact["present.features"], rtol=0, atol=1e-4)


def test_only_feature_buffers_change_their_shape() -> None:
    for core in CORES.values():
        for before, after in zip(core.state(), lowered_state(core), strict=True):
            lifted = (1, 1, ROWS, HIDDEN) if before.role == "features" else before.shape
            assert after.shape == lifted


def test_row_minus_one_leaves_every_feature_as_it_is() -> None:
    """What a static program that catches up is asked for: rows behind its tokens may hold true features."""
    fed = inputs("drafter", 8, [-1])
    found = lowered("drafter", fed)["present.features"]
    np.testing.assert_array_equal(found, fed["past.features"])
