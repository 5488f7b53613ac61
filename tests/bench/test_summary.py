import pytest

from specc.bench.costs import best_fixed_gamma, predicted_speedup
from specc.bench.identity import Difference, identity
from specc.bench.samples import PLAIN, SPECULATIVE, Trial
from specc.bench.summary import speed, speedup, summarise
from tests.support.bench_reports import COSTS, PEER, plain_sample, some_trials, speculative_sample, trial


def test_speedup_is_plains_time_a_token_over_ours() -> None:
    ratio = speedup([trial("a", "c", [2, 1])], SPECULATIVE)
    assert ratio is not None
    assert ratio.value == pytest.approx(0.010 / (2 * 0.014 / 5), rel=1e-12)
    against = speedup([trial("a", "c", [2, 1])], PLAIN, over=PEER)
    assert against is not None
    assert against.value == pytest.approx(1.5, rel=1e-12)


def test_answers_of_one_token_have_no_speed_but_count() -> None:
    summary = summarise([trial("a", "c", [])], COSTS)
    assert (summary.trials, summary.tokens, summary.speedup) == (1, 1, None)
    assert summary.plain.tokens_per_s is None
    assert summary.acceptance == ()
    assert summary.predicted is None


def test_summary_of_rounds() -> None:
    summary = summarise([trial("a", "c", [2, 0, 1, 2]), trial("b", "c", [0])], COSTS)
    assert summary.acceptance == pytest.approx((3 / 5, 2 / 5), rel=1e-12)
    assert summary.tokens_per_round == pytest.approx((3 + 1 + 2 + 3 + 1) / 5, rel=1e-12)
    assert summary.gamma == 2
    assert summary.draft_share == pytest.approx(0.1, rel=1e-9)
    assert summary.host_share == pytest.approx(0.02, rel=1e-9)
    assert summary.tokens == 10 + 2


def test_prediction_is_exact_where_rounds_cost_what_was_measured() -> None:
    measured = summarise([trial("a", "c", [2, 0, 1])], COSTS)
    assert measured.speedup is not None
    assert measured.predicted == pytest.approx(measured.speedup.value, rel=1e-12)


def test_best_fixed_gamma_is_found_from_acceptance_and_costs() -> None:
    rounds = speculative_sample([2, 2, 0, 0]).steps
    assert best_fixed_gamma(rounds, COSTS) == (2, pytest.approx(2 / 1.4))
    rounds = speculative_sample([1, 1, 1, 0]).steps
    assert best_fixed_gamma(rounds, COSTS) == (1, pytest.approx(1.75 / 1.2))
    rounds = speculative_sample([0, 0, 0]).steps
    assert best_fixed_gamma(rounds, COSTS) == (0, pytest.approx(1.0))


def test_bounds() -> None:
    assert COSTS.break_even == pytest.approx([1, 1.2, 1.4], rel=1e-12)
    assert COSTS.best_possible == pytest.approx(3 / 1.4, rel=1e-12)
    assert predicted_speedup((), COSTS) is None


def test_speed_of_one_side() -> None:
    plain = speed([plain_sample(11, first_s=0.1), plain_sample(21, first_s=0.3)])
    assert plain.tokens_per_s == pytest.approx(100, rel=1e-12)
    assert plain.first_token_s == pytest.approx(0.2, rel=1e-12)
    assert (plain.round_p50_s, plain.round_p99_s) == pytest.approx((0.010, 0.010), rel=1e-12)
    assert plain.prefilled == 20


def test_identical_answers() -> None:
    found = identity(some_trials())
    assert (found.compared, found.identical, found.first) == (8, 8, None)


def test_the_first_difference_is_found_and_its_question_left() -> None:
    same, other = plain_sample(5), speculative_sample([2, 2])
    trials = [
        Trial("a", "c", 1, (1,), {SPECULATIVE: same, PLAIN: same}),
        Trial("b", "c", 1, (1,), {SPECULATIVE: other, PLAIN: same}),
        Trial("b", "c", 2, (1,), {SPECULATIVE: same, PLAIN: same}),
    ]
    found = identity(trials)
    assert (found.compared, found.identical) == (2, 1)
    assert found.first == Difference("b", 1, 5)
