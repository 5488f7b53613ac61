import numpy as np
import pytest

import specc.checkpoint
from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from tests.support.checkpoints import decoder_config, write_hf_checkpoint
from tests.support.gguf_files import decoder_metadata, write_gguf
from tests.support.refusals import refuses


@pytest.fixture
def directory(tmp_path):
    return write_hf_checkpoint(tmp_path / "model", decoder_config(), {"model.norm.weight": np.ones(3, np.float32)})


@pytest.fixture
def gguf_path(tmp_path):
    return write_gguf(tmp_path / "x.gguf", decoder_metadata(), {"token_embd.weight": np.ones((300, 64), np.float32)})


def test_public_names():
    assert specc.checkpoint.__all__ == [
        "Checkpoint",
        "TokenizerFiles",
        "WeightTensor",
        "Weights",
        "find_speculator",
        "open_checkpoint",
    ]


def test_home_folder_is_expanded(directory, monkeypatch):
    monkeypatch.setenv("HOME", str(directory.parent))
    checkpoint = open_checkpoint("~/model")
    assert (checkpoint.source, checkpoint.path) == ("~/model", str(directory))


def test_gguf_file_is_known_by_its_content(gguf_path):
    checkpoint = open_checkpoint(str(gguf_path.rename(gguf_path.with_suffix(".bin"))))
    assert checkpoint.provenance["format"] == "gguf"


def test_provenance_of_a_gguf_file(gguf_path):
    provenance = open_checkpoint(str(gguf_path)).provenance
    assert provenance["licence"] == "apache-2.0"
    assert provenance["tensor_types"] == {"F32": 1}
    assert provenance["bytes"] == {"x.gguf": gguf_path.stat().st_size}
    assert provenance["sha256"].keys() == {"config.json"}


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_one_file_of_a_directory_points_to_the_directory(directory, name):
    with refuses(CheckpointError, directory / name, f"give its directory, {directory}"):
        open_checkpoint(str(directory / name))


def test_other_files_are_no_checkpoint(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with refuses(CheckpointError, tmp_path / "notes.txt", "not a GGUF file"):
        open_checkpoint(str(tmp_path / "notes.txt"))


@pytest.mark.parametrize(
    "ref", ["", "/no/such/directory", "./missing", "../missing", "org/missing.gguf", "a/b/c", "x" * 5000, "a\0b"]
)
def test_nothing_there(ref, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refuses(CheckpointError, repr(ref)[:100], "no such file or directory", "pkg://PACKAGE"):
        open_checkpoint(ref)
