import numpy as np
import pytest

from specc_runtime.acceptance_estimate import AcceptanceEstimate


def test_before_any_draft_the_prior_stands() -> None:
    estimate = AcceptanceEstimate([0.8, 0.4, 0.1], 3)
    assert estimate.expected_tokens == pytest.approx([1, 1.8, 2.2, 2.3], abs=0.2)


def test_positions_the_prior_lacks_are_like_the_one_before() -> None:
    estimate = AcceptanceEstimate([1.0], 3)
    gained = np.diff(estimate.expected_tokens)
    assert gained[2] / gained[1] == pytest.approx(gained[1] / gained[0], rel=1e-12)


def test_a_longer_prior_than_the_draft_is_cut() -> None:
    assert len(AcceptanceEstimate([0.5, 0.4, 0.3, 0.2], 2).expected_tokens) == 3


@pytest.mark.parametrize("prior", [[0.9, 0.8, 0.7, 0.6], [0.0] * 4])
def test_many_drafts_overrule_the_prior(prior: list[float]) -> None:
    likely = [0.7, 0.6, 0.5, 0.4]
    estimate, random = AcceptanceEstimate(prior, 4), np.random.default_rng(0)
    history = []
    for _ in range(3000):
        failed = (random.random(4) >= likely).nonzero()[0]
        estimate.record(4, int(failed[0]) if len(failed) else 4)
        history.append(estimate.expected_tokens)
    exact = 1 + np.cumsum([0, *np.cumprod(likely)])
    assert np.mean(history[500:], axis=0) == pytest.approx(exact, rel=0.03)


def test_another_text_is_learnt_within_forty_drafts() -> None:
    estimate = AcceptanceEstimate([0.9, 0.8], 2)
    for _ in range(200):
        estimate.record(2, 2)
    for _ in range(40):
        estimate.record(2, 0)
    assert estimate.expected_tokens[1] < 1.35
    for _ in range(40):
        estimate.record(2, 2)
    assert estimate.expected_tokens[2] > 2.2


def test_a_failure_says_nothing_of_the_positions_behind_it() -> None:
    one, other = AcceptanceEstimate([0.5, 0.3], 2), AcceptanceEstimate([0.5, 0.3], 2)
    one.record(1, 0)
    other.record(2, 0)
    assert one.expected_tokens == other.expected_tokens


def test_it_can_go_on_for_ever() -> None:
    estimate = AcceptanceEstimate([0.5], 1)
    for draft in range(50_000):
        estimate.record(1, draft % 2)
    assert estimate.expected_tokens[1] == pytest.approx(1.5, abs=0.02)
