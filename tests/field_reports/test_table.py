"""docs/field_reports.md names a test for every report, and each of them exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/field_reports.md").read_text(encoding="utf-8")
ROWS = [line for line in DOCUMENT.splitlines() if line.startswith("| ") and not line.startswith("| kind |")]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", DOCUMENT)))


@pytest.mark.parametrize("named", NAMED)
def test_a_named_test_exists(named: str) -> None:
    file, name = named.split("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_row_names_one() -> None:
    assert len(ROWS) > 30
    for row in ROWS:
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", row), row


def test_every_test_here_is_named() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {"tests/field_reports/test_table.py"} <= {named.split("::")[0] for named in NAMED}
