import pytest

from specc_runtime.manifest import Speculation
from specc_runtime.speculation import best_gamma, expected_tokens, predicted_speedups, round_costs

MEASURED = Speculation(
    round_s=(0.010, 0.012, 0.015), refill_s=0.0, acceptance=(0.6, 0.3), draft_rate=1.0, tokens=100
)  # fmt: skip


def test_a_round_emits_the_accepted_tokens_and_one_more() -> None:
    assert expected_tokens([0.6, 0.3]) == pytest.approx([1, 1.6, 1.9], rel=1e-12)


def test_costs_are_in_plain_steps() -> None:
    assert round_costs(MEASURED.round_s) == pytest.approx([1, 1.2, 1.5], rel=1e-12)


def test_speedup_is_tokens_over_cost() -> None:
    assert predicted_speedups(MEASURED) == pytest.approx([1, 1.6 / 1.2, 1.9 / 1.5], rel=1e-12)


def test_rounds_without_a_draft_are_plain_steps() -> None:
    half = Speculation(MEASURED.round_s, 0.0, MEASURED.acceptance, draft_rate=0.5, tokens=100)
    assert predicted_speedups(half) == pytest.approx([1, 1.3 / 1.1, 1.45 / 1.25], rel=1e-12)


@pytest.mark.parametrize(
    ("speedups", "allowed", "best"),
    [([1, 1.3, 1.2], (1, 2), 1), ([1, 1.3, 1.2], (2,), 2), ([1, 1.01, 0.9], (1, 2), 0), ([1, 1.3], (), 0)],
)
def test_best_gamma_is_among_the_allowed_and_gains(speedups: list[float], allowed: tuple[int, ...], best: int) -> None:
    assert best_gamma(speedups, allowed, least_gain=1.02) == best
