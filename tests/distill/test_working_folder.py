from pathlib import Path

import pytest
import torch

from specc.distill.options import DistillOptions
from specc.distill.working_folder import WorkingFolder
from specc.errors import OptionError


def open_folder(tmp_path: Path, sha256: str = "a", **changes: int) -> WorkingFolder:
    return WorkingFolder(DistillOptions("verifier", tmp_path / "drafter", **changes), sha256)  # type: ignore[arg-type]


def test_tensors_and_their_note_come_back(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    folder.write_tensors("text/a.safetensors", {"x": torch.arange(6).reshape(2, 3).T}, {"step": 3})
    tensors, note = folder.read_tensors("text/a.safetensors") or ({}, {})
    assert torch.equal(tensors["x"], torch.arange(6).reshape(2, 3).T)
    assert note == {"step": 3}
    assert folder.names("text/*") == ["text/a.safetensors"]
    assert folder.read_tensors("text/b.safetensors") is None


def test_time_spent_is_kept_by_phase(tmp_path: Path) -> None:
    open_folder(tmp_path).spend("text", 3.5)
    open_folder(tmp_path).spend("training", 1.0)
    assert open_folder(tmp_path).spent("text") == 3.5
    assert open_folder(tmp_path).spent("measuring") == 0.0


def test_more_minutes_go_on_in_the_same_folder(tmp_path: Path) -> None:
    open_folder(tmp_path, minutes=1)
    open_folder(tmp_path, minutes=2)


@pytest.mark.parametrize(("sha256", "seed", "named"), [("b", 0, "verifier_sha256 'a'"), ("a", 1, "seed 0, not 1")])
def test_another_runs_folder_is_refused(tmp_path: Path, sha256: str, seed: int, named: str) -> None:
    open_folder(tmp_path)
    with pytest.raises(OptionError, match=named):
        open_folder(tmp_path, sha256, seed=seed)
