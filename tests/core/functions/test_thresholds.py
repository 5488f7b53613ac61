import numpy as np
import pytest

from specc.core.functions.thresholds import threshold_functions, top_k_threshold, top_p_threshold
from tests.support.function_models import ENGINES, F32, I64, Run, graph_of, runner

SHAPE = ["B", "R", "V"]


@pytest.fixture(scope="module", params=ENGINES)
def kth(request: pytest.FixtureRequest) -> Run:
    inputs = {"logits": (F32, SHAPE), "k": (I64, ["B"])}
    return runner(graph_of(top_k_threshold(), inputs, {"t": F32}, threshold_functions()), request.param)


@pytest.fixture(scope="module", params=ENGINES)
def nucleus(request: pytest.FixtureRequest) -> Run:
    inputs = {"weights": (F32, SHAPE), "top_p": (F32, ["B"])}
    return runner(graph_of(top_p_threshold(), inputs, {"t": F32}, threshold_functions()), request.param)


def kept(run: Run, values: np.ndarray, **option: np.ndarray) -> np.ndarray:
    threshold = run({("logits" if "k" in option else "weights"): values} | option)["t"]
    assert threshold.shape == (*values.shape[:2], 1)
    return values >= threshold


def expected_top_k(logits: np.ndarray, k: int) -> np.ndarray:
    return logits >= np.sort(logits, axis=-1)[..., -min(k, logits.shape[-1]), None]


@pytest.mark.parametrize("offset", [-1000.0, -9.0, -1.0, 0.0, 2.0, 500.0])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 100.0])
def test_the_k_largest_are_kept_exactly(kth: Run, offset: float, scale: float) -> None:
    logits = (np.random.default_rng(0).standard_normal((5, 3, 90)) * scale + offset).astype(np.float32)
    ks = np.array([1, 2, 45, 89, 90])
    expected = [expected_top_k(rows, k) for rows, k in zip(logits, ks, strict=True)]
    np.testing.assert_array_equal(kept(kth, logits, k=ks), expected)


def test_neighbouring_floats_are_told_apart(kth: Run) -> None:
    """Logits one unit in the last place apart, of both signs, across powers of two: the search hides no tolerance."""
    ladder = [np.float32(start) for start in (-2.0, -1e-3, 1e-3, 2.0, 20.0)]
    logits = np.array(
        [[np.nextafter(x, np.float32(np.inf) * side, dtype=np.float32) for side in (-1, 1)] + [x] for x in ladder]
    )
    logits = logits.reshape(1, 1, -1)
    for k in range(1, logits.size + 1):
        assert kept(kth, logits, k=np.array([k])).sum() == k


def test_ties_at_the_k_th_are_all_kept(kth: Run) -> None:
    logits = np.array([[[3, 1, 2, 2, 2, -1, -1, 0, -0.0]]], np.float32)
    counts = [int(kept(kth, logits, k=np.array([k])).sum()) for k in range(1, 10)]
    assert counts == [1, 4, 4, 4, 5, 7, 7, 9, 9]


@pytest.mark.filterwarnings("ignore:overflow encountered")  # a step beyond the largest float is infinite, as meant
def test_extreme_logits(kth: Run) -> None:
    least, most = np.finfo(np.float32).min, np.finfo(np.float32).max
    logits = np.array([[[-np.inf, least, -1e30, -1.0, 1e30, most]]], np.float32)
    for k in range(1, 6):
        assert kept(kth, logits, k=np.array([k])).sum() == k


@pytest.mark.parametrize("k", [0, 7, 1000])
def test_k_off_or_beyond_the_vocabulary_keeps_all(kth: Run, k: int) -> None:
    logits = np.random.default_rng(1).standard_normal((1, 2, 7)).astype(np.float32)
    assert kept(kth, logits, k=np.array([k])).all()


def expected_top_p(weights: np.ndarray, top_p: float) -> np.ndarray:
    ordered = np.sort(weights.astype(np.float64), axis=-1)[..., ::-1]
    held = ordered.cumsum(axis=-1)
    last = (held < top_p * held[..., -1:]).sum(axis=-1)
    return weights >= np.take_along_axis(ordered, last[..., None], axis=-1)


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 8.0])
@pytest.mark.parametrize("size", [3, 300, 5000])
def test_the_nucleus_is_exact(nucleus: Run, size: int, spread: float) -> None:
    """From one token to all: laws flat and peaked, nuclei above and below every floor that a backend tries."""
    logits = np.random.default_rng(size).standard_normal((4, 2, size)) * spread
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True)).astype(np.float32)
    shares = np.array([1e-6, 0.5, 0.9, 0.99], np.float32)
    expected = [expected_top_p(rows, float(share)) for rows, share in zip(weights, shares, strict=True)]
    np.testing.assert_array_equal(kept(nucleus, weights, top_p=shares), expected)


def test_ties_at_the_edge_of_the_nucleus_are_all_kept(nucleus: Run) -> None:
    weights = np.array([[[0.5, 0.125, 0.25, 0.125]]], np.float32)
    counts = [int(kept(nucleus, weights, top_p=np.array([p], np.float32)).sum()) for p in (0.5, 0.51, 0.75, 0.76)]
    assert counts == [1, 2, 2, 4]


def test_off_keeps_all_and_more_than_off_too(nucleus: Run) -> None:
    weights = np.array([[[1.0, 1e-30, 0.0]]] * 2, np.float32)
    assert kept(nucleus, weights, top_p=np.array([1.0, 1.5], np.float32)).all()
