import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specc.check
from specc.progress import Progress
from specc.reports import CheckReport, CheckRow

ROWS = (CheckRow("hashes", True, "12 files"), CheckRow("law", None, "greedy only"), CheckRow("rows", False, "differs"))


@pytest.fixture(params=[ROWS, ROWS[:2]], ids=["failing", "passing"])
def report(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CheckReport:
    result = CheckReport(request.param)

    def check_bundle(path: Path, progress: Progress) -> CheckReport:
        assert path == Path("bundle")
        with progress.step("hashing", total=2) as step:
            step.advance()
        return result

    monkeypatch.setattr(specc.check, "check_bundle", check_bundle)
    return result


def test_table_and_exit_code(report: CheckReport, specc: Callable[..., Any]) -> None:
    outcome = specc("check", "bundle")
    assert outcome.code == (0 if report.passed else 1)
    verdicts = [line.split()[1] for line in outcome.out.splitlines()[2:] if line.strip()]
    assert verdicts == ["pass", "n/a", "FAIL"][: len(report.rows)]
    assert outcome.err.startswith("hashing: took ")


def test_json(report: CheckReport, specc: Callable[..., Any]) -> None:
    outcome = specc("check", "bundle", "--json")
    document = json.loads(outcome.out)
    assert outcome.code == (0 if report.passed else 1)
    assert document["passed"] is report.passed
    assert [CheckRow(**row) for row in document["rows"]] == list(report.rows)
