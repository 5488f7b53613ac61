import numpy as np
import pytest

from specc_runtime.truncate import largest, nucleus


def sorted_largest(values: np.ndarray, k: int) -> list[int]:
    kth = np.sort(values)[::-1][min(k, len(values)) - 1]
    return np.flatnonzero(values >= kth).tolist()


def sorted_nucleus(weights: np.ndarray, top_p: float) -> list[int]:
    descending = np.sort(weights.astype(np.float64))[::-1]
    kept = int(np.searchsorted(np.cumsum(descending), top_p * descending.sum())) + 1
    return np.flatnonzero(weights >= descending[min(kept, len(descending)) - 1]).tolist()


@pytest.mark.parametrize("size", [1, 5, 1023, 1024, 3000, 4096])
@pytest.mark.parametrize("k", [1, 2, 50, 512, 513, 5000])
def test_largest_equals_sorting(size: int, k: int) -> None:
    rng = np.random.default_rng([size, k])
    values = rng.standard_normal(size).astype(np.float32)
    assert largest(values, k).tolist() == sorted_largest(values, k)
    coarse = np.round(values * 2) / 2
    assert largest(coarse, k).tolist() == sorted_largest(coarse, k)


def test_largest_where_the_best_share_one_group() -> None:
    values = np.zeros(4096, dtype=np.float32)
    values[::1024] = [4, 3, 2, 1]
    assert largest(values, 3).tolist() == [0, 1024, 2048]


def test_largest_with_most_values_banned() -> None:
    values = np.full(3000, -np.inf, dtype=np.float32)
    values[[5, 70]] = [1, 2]
    assert largest(values, 1).tolist() == [70]
    assert largest(values, 2).tolist() == [5, 70]


@pytest.mark.parametrize("spread", [0.1, 2.0, 8.0], ids=["flat", "usual", "peaked"])
@pytest.mark.parametrize("top_p", [1e-9, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12])
def test_nucleus_equals_sorting(spread: float, top_p: float) -> None:
    rng = np.random.default_rng(int(spread * 10))
    for size in (1, 7, 3000):
        weights = np.exp(spread * rng.standard_normal(size)).astype(np.float32)
        total = float(weights.sum(dtype=np.float64))
        assert nucleus(weights, top_p, total).tolist() == sorted_nucleus(weights, top_p)


def test_nucleus_keeps_all_ties_at_its_floor() -> None:
    weights = np.array([0.4, 0.2, 0.2, 0.2], dtype=np.float32)
    assert nucleus(weights, 0.5, 1.0).tolist() == [0, 1, 2, 3]
    assert nucleus(weights, 0.4, 1.0).tolist() == [0]


@pytest.mark.parametrize("top_p", [1e-9, 0.5, 0.999999])
def test_nucleus_of_a_uniform_law_keeps_every_tie(top_p: float) -> None:
    weights = np.full(1000, 1 / 1000, dtype=np.float32)
    assert len(nucleus(weights, top_p, 1.0000005)) == 1000
