from dataclasses import replace

import pytest

from specc.bench.identity import Difference, Identity
from specc.bench.intervals import Ratio
from specc.bench.verdict import ratio_text, verdict
from tests.support.bench_reports import report, trial

WON, LOST = [2, 2, 2], [0, 0, 0]


def trials(accepted: list[int], category: str = "qa") -> list[object]:
    return [trial(str(i), category, accepted, slow=1 + 0.01 * i) for i in range(4)]


@pytest.mark.parametrize(
    ("accepted", "said"),
    [(WON, "Speculation wins: 2.11x ["), (LOST, "Speculation loses: 0.70x ["), ([1, 0, 0, 1, 0], "no sure difference")],
)
def test_the_first_line_says_who_wins(accepted: list[int], said: str) -> None:
    assert said in verdict(report(trials(accepted)))[0]


def test_losing_categories_are_named() -> None:
    lines = verdict(report([*trials(WON), *trials(LOST, "maths")]))
    assert lines[1].startswith("It loses on maths 0.7")


def test_where_all_win_nothing_more_is_said() -> None:
    lines = verdict(report([*trials(WON), *trials(WON, "maths")]))
    assert lines[1] == "8 of 8 answers are token for token those of plain decoding."


def test_a_difference_is_placed_and_what_was_left_out_is_told() -> None:
    different = replace(report(), identity=Identity(8, 7, Difference("81", 2, 13)), skipped=("9", "10"))
    lines = verdict(different)
    assert lines[-3:] == (
        "7 of 8 answers are token for token those of plain decoding.",
        "The first difference: question 81, turn 2, token 13.",
        "2 questions did not fit the context and were left out.",
    )


def test_sampled_texts_are_not_compared() -> None:
    made = report()
    assert "token for token" not in " ".join(verdict(replace(made, settings={**made.settings, "temperature": 1.0})))


def test_nothing_to_compare_is_no_claim() -> None:
    assert "was not measured" in verdict(report([trial("1", "qa", [])]))[0]


def test_ratio_text() -> None:
    assert ratio_text(None) == "-"
    assert ratio_text(Ratio(1.5, None, None, 1)) == "1.50x"
    assert ratio_text(Ratio(1.5, 1.404, 1.6, 9)) == "1.50x [1.40, 1.60]"
