import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax as expected_softmax

from specc.check.chi_square import chi_square_p, uniform_counts
from specc.check.places import places, ratio, softmax


def test_softmax() -> None:
    logits = np.random.default_rng(0).normal(0, 20, (4, 9)).astype(np.float32)
    np.testing.assert_allclose(
        softmax(logits), expected_softmax(logits.astype(np.float64), axis=-1), rtol=1e-12, atol=0
    )


LAWS = {
    "peaked": np.exp(np.random.default_rng(3).normal(0, 4, (5, 40))),
    "flat": np.ones((5, 40)),
    "ties": np.random.default_rng(4).integers(1, 3, (5, 40)).astype(float),
    "zeros": np.random.default_rng(5).integers(0, 2, (5, 40)).astype(float),
    "two tokens": np.random.default_rng(6).random((5, 2)),
}


def drawn(laws: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """`count` laws, a token drawn from each, and what spreads its place."""
    random = np.random.default_rng(0)
    rows = laws[np.arange(count) % len(laws)]
    return rows, np.array([random.choice(len(row), p=row) for row in rows]), random.random(count)


@pytest.mark.parametrize("scores", ["the law", "its opposite", "another law", "all alike"])
@pytest.mark.parametrize("kind", LAWS)
def test_places_of_tokens_drawn_from_their_law_are_uniform(kind: str, scores: str) -> None:
    laws, tokens, spread = drawn(LAWS[kind] / LAWS[kind].sum(axis=1, keepdims=True), 3000)
    other = np.random.default_rng(1).random(laws.shape)
    score = {"the law": laws, "its opposite": -laws, "another law": ratio(other, laws), "all alike": 0 * laws}[scores]
    found = places(laws, score, tokens, spread)
    assert 0 <= found.min() <= found.max() < 1
    assert chi_square_p(uniform_counts(found, 10)) > 1e-3


def test_places_by_hand() -> None:
    laws = np.array([[0.2, 0.5, 0.3]] * 3)
    tokens, spread = np.array([1, 2, 0]), np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(places(laws, laws, tokens, spread), [0.0, 0.65, np.nextafter(1, 0)], rtol=0, atol=1e-12)
    equal = np.array([[1.0, 1.0, 2.0]] * 3)
    np.testing.assert_allclose(places(laws, equal, tokens, spread), [0.3, 0.15, np.nextafter(1, 0)], rtol=0, atol=1e-12)


def test_ratio_is_the_ratio_where_there_is_mass() -> None:
    drafter, verifier = np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.0, 0.75]])
    np.testing.assert_array_equal(ratio(drafter, verifier), [[2.0, 0.0, 0.0]])
