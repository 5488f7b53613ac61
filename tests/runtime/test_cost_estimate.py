import pytest

from specc_runtime.cost_estimate import CostEstimate

PRIOR = [1.0, 1.2, 1.4, 1.6]


def test_before_any_round_the_prior_stands() -> None:
    estimate = CostEstimate(PRIOR, plain_s=0.01)
    assert estimate.costs == pytest.approx(PRIOR, abs=1e-12)
    assert estimate.plain_s == 0.01


def test_a_timed_length_costs_what_was_timed_and_the_others_follow_its_excess() -> None:
    estimate = CostEstimate(PRIOR)
    estimate.record(0, 0.010)
    estimate.record(2, 0.018)  # 0.8 above a plain step, twice what was expected
    assert estimate.costs == pytest.approx([1, 1.4, 1.8, 2.2], rel=1e-12)
    estimate.record(1, 0.011)
    assert estimate.costs == pytest.approx([1, 1.1, 1.8, 1.3], rel=1e-12)


def test_without_a_plain_step_there_is_nothing_to_compare_with() -> None:
    estimate = CostEstimate(PRIOR)
    estimate.record(2, 0.018)
    assert estimate.costs == pytest.approx(PRIOR, abs=1e-12)
    estimate.record(0, 0.009)
    assert estimate.costs[2] == pytest.approx(2.0, rel=1e-12)


def test_one_slow_round_changes_nothing() -> None:
    estimate = CostEstimate(PRIOR)
    for _ in range(5):
        estimate.record(0, 0.010)
        estimate.record(1, 0.012)
    estimate.record(0, 0.090)
    estimate.record(1, 0.200)
    assert estimate.costs[1] == pytest.approx(1.2, rel=1e-12)


def test_a_machine_that_slows_down_is_noticed_within_the_window() -> None:
    estimate = CostEstimate(PRIOR)
    for seconds in [0.010] * 5 + [0.020] * 3:
        estimate.record(0, seconds)
    assert estimate.plain_s == 0.020


def test_a_prior_without_excess_is_no_division_by_zero() -> None:
    estimate = CostEstimate([1.0, 0.9, 1.0])
    estimate.record(0, 0.010)
    estimate.record(1, 0.009)
    assert estimate.costs == pytest.approx([1, 0.9, 1.0], rel=1e-12)
