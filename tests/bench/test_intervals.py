import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from specc.bench.intervals import Ratio, paired_ratio, percentile, student_t


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 8, 11, 30, 79, 80, 500])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_students_t(degrees: int, confidence: float) -> None:
    assert student_t(degrees, confidence) == pytest.approx(t.ppf((1 + confidence) / 2, degrees), rel=1e-9)


def test_the_interval_is_the_t_tests() -> None:
    random = np.random.default_rng(0)
    logs = random.normal(0.2, 0.1, 12)
    ratio = paired_ratio([(math.exp(x), 1.0) for x in logs])
    interval = ttest_1samp(logs, 0).confidence_interval(0.95)
    assert ratio is not None
    assert ratio.value == pytest.approx(math.exp(logs.mean()), rel=1e-12)
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)
    assert ratio.pairs == 12


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        ratio = paired_ratio([(float(x), 1.0) for x in np.exp(random.normal(0.0, 0.3, 6))])
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low < 1 < ratio.high
    assert held / 1000 == pytest.approx(0.95, abs=0.025)


def test_a_ratio_and_its_inverse_agree() -> None:
    pairs = [(1.0, 2.0), (1.5, 2.0), (1.0, 1.0), (2.0, 3.0)]
    one, other = paired_ratio(pairs), paired_ratio([(b, a) for a, b in pairs])
    assert one is not None
    assert other is not None
    assert one.value * other.value == pytest.approx(1, rel=1e-12)
    assert one.low is not None
    assert other.high is not None
    assert one.low * other.high == pytest.approx(1, rel=1e-12)


def test_too_few_pairs_have_no_interval() -> None:
    assert paired_ratio([]) is None
    assert paired_ratio([(2.0, 1.0), (2.0, 1.0)]) == Ratio(pytest.approx(2.0), None, None, 2)


def test_percentiles_are_numpys() -> None:
    values = list(np.random.default_rng(2).random(37))
    for share in (0, 0.01, 0.5, 0.99, 1):
        assert percentile(values, share) == pytest.approx(np.quantile(values, share), rel=1e-12)
    assert percentile([], 0.5) is None
