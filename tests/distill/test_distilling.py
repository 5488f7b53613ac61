import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.assembly.sources import open_model
from specc.checkpoint.speculator import open_speculator
from specc.distill.distilling import distill
from specc.distill.options import DistillOptions, Recipe
from specc.errors import OptionError
from tests.distill.tiny_verifier import write_tiny_verifier

QUICK = Recipe(
    conversations=12, tokens=(40,), text_share=0.4, batch=160, steps=2, training_steps=6, held_out=4, evaluations=1
)


def options(folder: Path, **changes: Any) -> DistillOptions:
    asked: dict[str, Any] = {"minutes": 0.02, "head": 120, "seed": 3, "recipe": QUICK}
    return DistillOptions(str(folder / "verifier"), folder / "drafter", **(asked | changes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_verifier(tmp_path / "verifier")
    return tmp_path


def test_report_states_what_was_measured_and_how_to_make_it_again(folder: Path) -> None:
    report = distill(options(folder))
    written = json.loads((report.output / "report.json").read_text())
    weights = report.output / "model.safetensors"
    assert written["weights_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert written["weights_bytes"] == weights.stat().st_size
    assert len(written["verifier_sha256"]) == 64
    assert (written["seed"], written["recipe"]["steps"]) == (3, 2)
    assert written["text"]["tokens"] > 0
    assert written["text"]["held_out"] > 0
    assert [point["step"] for point in written["curve"]] == [6]
    for temperature in ("T=0", "T=1"):
        measured = written["acceptance"][temperature]
        assert len(measured["per_position"]) == 8
        assert sorted(measured["tokens_per_round"]) == list("12345678")
    text = (report.output / "report.md").read_text()
    assert written["weights_sha256"] in text
    assert "specc draft distill" in text
    assert (report.output / "learning_curve.svg").read_text().startswith("<svg")


def test_a_feature_drafter_is_what_the_compiler_opens(folder: Path) -> None:
    report = distill(options(folder))
    drafter = open_speculator(report.output, "drafter")
    assert drafter.architecture == "eagle3"
    assert drafter.shares_head
    assert drafter.shares_embedding
    assert drafter.head_ids is not None
    assert len(drafter.head_ids) == 120
    assert 299 in drafter.head_ids  # the end of a turn can be proposed whatever its count
    assert drafter.features is not None
    assert drafter.features.layers == (0, 1, 2)
    assert (drafter.features.fc_norm, drafter.features.norm_before_residual) == (True, True)
    assert drafter.weights["fc_norm.2.weight"].shape == (32,)
    assert drafter.weights["layers.0.self_attn.k_proj.weight"].shape == (16, 64)
    assert {tensor.dtype for tensor in drafter.weights.values()} == {np.dtype(np.float16)}


def test_a_decoder_drafter_is_a_llama_over_the_verifiers_embedding(folder: Path) -> None:
    report = distill(options(folder, architecture="decoder"))
    drafter = open_speculator(report.output, "drafter")
    assert drafter.architecture == "independent"
    assert drafter.features is None
    verifier = open_model(str(folder / "verifier"), ())
    layer = {name.removeprefix("model.") for name in verifier.checkpoint.weights if "layers.0." in name}
    assert set(drafter.weights) == layer | {"norm.weight"}


def test_text_files_are_trained_on_too(folder: Path) -> None:
    (folder / "a.txt").write_text("the quick brown fox jumps over the lazy dog " * 40)
    report = distill(options(folder, text=(folder / "a.txt",)))
    assert report.facts["text_files"] == ["a.txt"]
    assert (folder / "drafter.work" / "text" / "file-00000.safetensors").exists()


def test_a_finished_run_asked_again_writes_the_same_drafter(folder: Path) -> None:
    first = distill(options(folder)).facts
    again = distill(options(folder)).facts
    assert again["weights_sha256"] == first["weights_sha256"]
    assert again["text"] == first["text"]


def test_a_run_with_other_options_is_refused_until_its_folder_is_gone(folder: Path) -> None:
    distill(options(folder))
    with pytest.raises(OptionError, match=r"holds a run with seed 3, not 4; delete the folder"):
        distill(options(folder, seed=4))


def test_nothing_is_stored_as_a_pickle(folder: Path) -> None:
    report = distill(options(folder))
    suffixes = {path.suffix for root in (report.output, folder / "drafter.work") for path in root.rglob("*.*")}
    assert suffixes <= {".json", ".md", ".svg", ".safetensors", ".work"}
