import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.distill.tiny_verifier import write_tiny_verifier


def test_distill_writes_a_drafter_and_prints_its_report(specc: Callable[..., Any], tmp_path: Path) -> None:
    verifier = write_tiny_verifier(tmp_path / "verifier")
    outcome = specc(
        "draft", "distill", verifier, "-o", tmp_path / "drafter", "--minutes", 0.05, "--head", 100, "--json"
    )
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert report["output"] == str(tmp_path / "drafter")
    assert report["head_rows"] == 100
    assert "training: took" in outcome.err


def test_distill_without_torch_says_how_to_get_it(
    specc: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specc.cli.draft.find_spec", lambda name: None)
    outcome = specc("draft", "distill", "verifier", "-o", tmp_path / "drafter")
    assert outcome.code == 2
    assert "pip install '.[distill]'" in outcome.err
