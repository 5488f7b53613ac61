import numpy as np
import pytest
from scipy.special import gammaincc
from scipy.stats import chisquare

from specc.check.chi_square import chi_square_p, uniform_counts, upper_gamma


@pytest.mark.parametrize("x", [0.0, 1e-6, 0.3, 1.0, 4.5, 20.0, 300.0])
@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 2.0, 4.5, 9.5, 50.0])
def test_upper_gamma_is_scipys(shape: float, x: float) -> None:
    assert upper_gamma(shape, x) == pytest.approx(gammaincc(shape, x), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("bins", [2, 3, 10, 17])
@pytest.mark.parametrize("skew", [0.0, 0.1, 0.5])
def test_p_is_scipys(bins: int, skew: float) -> None:
    weights = 1 + skew * np.arange(bins)
    counts = np.random.default_rng(bins).multinomial(500, weights / weights.sum())
    assert chi_square_p(counts) == pytest.approx(chisquare(counts).pvalue, rel=1e-10, abs=1e-300)


def test_p_is_uniform_if_the_bins_are() -> None:
    random = np.random.default_rng(0)
    values = [chi_square_p(random.multinomial(400, [0.1] * 10)) for _ in range(2000)]
    assert np.quantile(values, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


def test_counts() -> None:
    places = np.array([0.0, 0.09, 0.1, 0.55, np.nextafter(1, 0)])
    assert uniform_counts(places, 10).tolist() == [2, 1, 0, 0, 0, 1, 0, 0, 0, 1]
