from typing import Any

import numpy as np
import pytest

from specc.check.row_independence import MAX_DIFFERENCE, check_row_independence
from specc.check.subject import Subject
from specc.progress import Silent
from specc.reports import CheckRow
from specc_runtime.bundle import open_bundle
from tests.check.wrapping import replaced
from tests.support.tiny_models import TinyBundles


@pytest.fixture(scope="module", params=["reference", "int8", "reference,kv=fp16"])
def subject(request: pytest.FixtureRequest, tiny: TinyBundles) -> Subject:
    return Subject.load(open_bundle(tiny.bundle(precision=request.param, gammas=(2, 5))))


def judged(subject: Subject) -> CheckRow:
    (row,) = check_row_independence(subject, Silent())
    return row


def test_every_width_gives_the_same_bits(subject: Subject) -> None:
    row = judged(subject)
    assert (row.passed, row.detail) == (True, "bit-identical for every width 1 to 6")


@pytest.mark.parametrize(("noise", "passed"), [(1e-4, True), (0.01, False)])
def test_a_width_that_differs_is_named(noise: float, passed: bool, subject: Subject) -> None:
    def verify(original: Any, tokens: Any, position: int, rows: int) -> Any:
        return original(tokens, position, rows) + np.float32(noise if len(tokens) == 3 else 0)

    row = judged(replaced(subject, verify=verify))
    assert row.passed is passed
    assert f"(at most {MAX_DIFFERENCE:g}) at widths [3]" in row.detail


def test_a_row_that_sees_later_ones_is_found(subject: Subject) -> None:
    def verify(original: Any, tokens: Any, position: int, rows: int) -> Any:
        return original(tokens, position, rows) + np.float32(0.01 * tokens.sum() / 1000)

    assert judged(replaced(subject, verify=verify)).passed is False
