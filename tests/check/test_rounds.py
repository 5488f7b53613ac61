from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specc.check import rounds
from specc.check.rounds import check_rounds
from specc.check.subject import Subject
from specc.progress import Silent
from specc.reports import CheckRow
from specc_runtime.bundle import open_bundle
from tests.check.wrapping import replaced
from tests.support.tiny_models import TinyBundles


@pytest.fixture(scope="module")
def subject(tiny: TinyBundles) -> Subject:
    return Subject.load(open_bundle(tiny.bundle(gammas=(1, 4), fuse=True)))


@pytest.fixture(autouse=True)
def few_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SEEDS", 3)


def judged(subject: Subject) -> list[CheckRow]:
    return list(check_rounds(subject, Silent()))


def test_a_row_a_program(subject: Subject) -> None:
    rows = judged(subject)
    assert [row.name for row in rows] == ["rounds of drafter fused, gamma 1", "rounds of drafter fused, gamma 4"]
    assert {(row.passed, row.detail) for row in rows} == {(True, "6 of 6 sampled texts are the host's (at least 75%)")}


def test_none_to_judge(tiny: TinyBundles) -> None:
    (row,) = judged(Subject.load(open_bundle(tiny.bundle())))
    assert row.passed is None
    assert "compile with --fuse" in row.detail


@pytest.mark.parametrize("part", ["draft", "accept", "last"])
def test_uniforms_used_for_something_else_are_seen(part: str, subject: Subject) -> None:
    """Each of them decides something: a program that reads another one there emits other texts."""

    def shuffled(original: Any, program: Any, tokens: Any, position: int, uniforms: Any, sampling: Any) -> Any:
        gamma, other = program.width - 1, uniforms.copy()
        places = {"draft": slice(gamma), "accept": slice(gamma, 2 * gamma), "last": slice(2 * gamma, None)}
        other[places[part]] = (other[places[part]] + np.float32(0.5)) % 1
        return original(program, tokens, position, other, sampling)

    assert [row.passed for row in judged(replaced(subject, round=shuffled))] == [False, False]


def test_a_round_that_ignores_truncation_is_seen(subject: Subject) -> None:
    def ignoring(original: Any, program: Any, tokens: Any, position: int, uniforms: Any, sampling: Any) -> Any:
        return original(program, tokens, position, uniforms, replace(sampling, top_k=0, top_p=1.0, min_p=0.0))

    rows = judged(replaced(subject, round=ignoring))
    assert [row.passed for row in rows] == [False, False]
    assert "3 of 6" in rows[0].detail
