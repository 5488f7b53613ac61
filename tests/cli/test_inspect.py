import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specc_runtime.manifest_writing import manifest_json
from tests.support.manifests import small_manifest, write_bundle


def test_tables_show_programs_shapes_bytes_and_precision(specc: Callable[..., Any], tmp_path: Path) -> None:
    outcome = specc("inspect", write_bundle(tmp_path))
    assert outcome.code == 0
    for text in (
        "verify",
        "[1, S]",
        "[1, R, 8]",
        "programs/verifier.onnx",
        "precision: reference",
        "3 bytes",
        "kl 0.25",
    ):
        assert text in outcome.out


@pytest.mark.parametrize("target", ["cpu", "a100", "rtx3090,rtx4090"])
def test_a_machine_on_which_nothing_was_run_is_said_to_be_one(
    specc: Callable[..., Any], tmp_path: Path, target: str
) -> None:
    outcome = specc("inspect", write_bundle(tmp_path, replace(small_manifest(), target=target)))
    assert outcome.code == 0
    assert ("untested on device" in outcome.out) == (target != "cpu")


def test_json_is_the_manifest(specc: Callable[..., Any], tmp_path: Path) -> None:
    outcome = specc("inspect", write_bundle(tmp_path), "--json")
    assert json.loads(outcome.out) == json.loads(manifest_json(small_manifest()))


def test_changed_bundle_is_refused(specc: Callable[..., Any], tmp_path: Path) -> None:
    (write_bundle(tmp_path) / "tokenizer.json").write_text("longer")
    outcome = specc("inspect", tmp_path)
    assert outcome.code == 1
    assert outcome.out == ""
    assert "tokenizer.json" in outcome.err
    assert outcome.err.count("\n") == 1


def test_no_bundle_is_refused(specc: Callable[..., Any], tmp_path: Path) -> None:
    outcome = specc("inspect", tmp_path / "nowhere")
    assert outcome.code == 1
    assert "nowhere" in outcome.err
