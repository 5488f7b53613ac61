import hashlib
import json

import ml_dtypes
import numpy as np
import pytest

from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from tests.support.checkpoints import decoder_config, decoder_weights, tiny_tokenizer_json, write_hf_checkpoint
from tests.support.refusals import refuses

INDEX = "model.safetensors.index.json"


@pytest.fixture
def weights():
    return decoder_weights(decoder_config())


@pytest.fixture
def sharded(tmp_path, weights):
    return write_hf_checkpoint(tmp_path / "model", decoder_config(), weights, shards=3)


def edit_index(directory, edit):
    index = json.loads((directory / INDEX).read_text())
    edit(index["weight_map"])
    (directory / INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_every_tensor_comes_back_from_any_number_of_shards(tmp_path, weights, shards):
    weights |= {"half": np.ones(3, np.float16), "brain": np.ones(3, ml_dtypes.bfloat16)}
    directory = write_hf_checkpoint(tmp_path, decoder_config(), weights, shards=shards)
    checkpoint = open_checkpoint(str(directory))
    assert set(checkpoint.weights) == set(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(checkpoint.weights[name].numpy(), array, strict=True)
    assert checkpoint.config == decoder_config()
    assert (checkpoint.source, checkpoint.path) == (str(directory), str(directory))
    assert checkpoint.tokenizer is None


def test_one_file_is_preferred_to_an_index_beside_it(sharded, weights):
    write_hf_checkpoint(sharded, decoder_config(), {"only": weights["model.norm.weight"]})
    assert list(open_checkpoint(str(sharded)).weights) == ["only"]


def test_provenance_has_licence_hashes_and_sizes(tmp_path, weights):
    directory = write_hf_checkpoint(tmp_path, decoder_config(), weights, tiny_tokenizer_json(300), shards=2)
    (directory / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n")
    provenance = open_checkpoint(str(directory)).provenance
    assert provenance["format"] == "safetensors"
    assert provenance["licence"] == "apache-2.0"
    assert set(provenance["sha256"]) == {"config.json", "tokenizer.json"}
    assert provenance["sha256"]["config.json"] == hashlib.sha256((directory / "config.json").read_bytes()).hexdigest()
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert provenance["bytes"] == {name: (directory / name).stat().st_size for name in names}


def test_missing_config(tmp_path, weights):
    directory = write_hf_checkpoint(tmp_path, decoder_config(), weights)
    (directory / "config.json").unlink()
    with refuses(CheckpointError, directory / "config.json", "no such file", "save_pretrained"):
        open_checkpoint(str(directory))


def test_directory_of_gguf_files_points_to_the_file(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with refuses(CheckpointError, tmp_path / "config.json", f"give the file itself, e.g. {tmp_path / 'tiny.gguf'}"):
        open_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "not JSON"),
        (b'{"a": ', "not JSON"),
        (b"[1, 2]", "expected a JSON object, found list"),
        (b"null", "found NoneType"),
        (b"\xff\xff", "can't be read"),
    ],
)
def test_config_that_is_no_json_object(tmp_path, weights, content, found):
    directory = write_hf_checkpoint(tmp_path, decoder_config(), weights)
    (directory / "config.json").write_bytes(content)
    with refuses(CheckpointError, directory / "config.json", found, "save_pretrained"):
        open_checkpoint(str(directory))


def test_config_that_is_a_directory(tmp_path, weights):
    directory = write_hf_checkpoint(tmp_path, decoder_config(), weights)
    (directory / "config.json").unlink()
    (directory / "config.json").mkdir()
    with refuses(CheckpointError, directory / "config.json", "found a directory"):
        open_checkpoint(str(directory))


def test_missing_shard(sharded):
    (sharded / "model-00002-of-00003.safetensors").unlink()
    with refuses(CheckpointError, sharded / "model-00002-of-00003.safetensors", INDEX, "download the missing shard"):
        open_checkpoint(str(sharded))


def test_index_that_names_an_absent_file(sharded):
    edit_index(sharded, lambda weight_map: weight_map.update(extra="model-00004-of-00003.safetensors"))
    with refuses(CheckpointError, sharded / "model-00004-of-00003.safetensors", INDEX, "missing shard"):
        open_checkpoint(str(sharded))


def test_index_that_names_a_file_no_disk_can_hold(sharded):
    edit_index(sharded, lambda weight_map: weight_map.update(extra="x" * 5000))
    with refuses(CheckpointError, "no such file", INDEX, "missing shard"):
        open_checkpoint(str(sharded))


def test_index_that_names_a_tensor_its_shard_lacks(sharded):
    edit_index(sharded, lambda weight_map: weight_map.update(extra="model-00001-of-00003.safetensors"))
    with refuses(CheckpointError, sharded / "model-00001-of-00003.safetensors", "no tensor 'extra'", INDEX):
        open_checkpoint(str(sharded))


@pytest.mark.parametrize(
    "shard",
    ["../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..\\x", "..", ".", "", "a\0b", "\ud800", 7, None, ["x"]],
)
def test_index_that_leaves_the_directory(sharded, shard):
    (sharded.parent / "x.safetensors").write_bytes((sharded / "model-00001-of-00003.safetensors").read_bytes())
    edit_index(sharded, lambda weight_map: weight_map.update({"model.norm.weight": shard}))
    with refuses(CheckpointError, sharded / INDEX, "'model.norm.weight'", "no name of a file beside it"):
        open_checkpoint(str(sharded))


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": ["a"]}])
def test_index_without_a_weight_map(sharded, index):
    (sharded / INDEX).write_text(json.dumps(index))
    with refuses(CheckpointError, sharded / INDEX, "no weight_map"):
        open_checkpoint(str(sharded))


def test_directory_with_pytorch_pickles_only(tmp_path):
    write_hf_checkpoint(tmp_path, decoder_config(), {"a": np.ones(1, np.float32)})
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with refuses(CheckpointError, tmp_path / "model.safetensors", "pickles", "convert to safetensors"):
        open_checkpoint(str(tmp_path))


def test_directory_with_another_safetensors_name(tmp_path):
    write_hf_checkpoint(tmp_path, decoder_config(), {"a": np.ones(1, np.float32)})
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    with refuses(CheckpointError, tmp_path / "model.safetensors", "rename weights.safetensors"):
        open_checkpoint(str(tmp_path))


def test_directory_without_weights(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with refuses(CheckpointError, tmp_path / "model.safetensors", "no weights", "download"):
        open_checkpoint(str(tmp_path))
