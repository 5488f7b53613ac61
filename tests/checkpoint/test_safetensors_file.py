import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from specc.checkpoint.safetensors_file import read_safetensors
from specc.errors import CheckpointError
from tests.support.refusals import refuses

ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def write_raw(path: Path, header: Any, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int8, np.uint16, np.bool_]
)
def test_values_equal_those_of_the_safetensors_package(tmp_path, dtype):
    array = np.random.default_rng(0).integers(0, 2, (3, 5)).astype(dtype)
    save_file({"a": array, "empty": np.zeros((0, 4), dtype), "scalar": np.ones((), dtype)}, tmp_path / "x.safetensors")
    tensors = read_safetensors(tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "numpy") as reference:
        assert set(tensors) == set(reference.keys())
        for name, tensor in tensors.items():
            expected = reference.get_tensor(name)
            assert (tensor.name, tensor.shape, tensor.dtype) == (name, expected.shape, expected.dtype)
            np.testing.assert_array_equal(tensor.numpy(), expected, strict=True)


def test_a_tensor_is_a_read_only_view_of_the_file(tmp_path):
    save_file({"a": np.arange(6, dtype=np.float32)}, tmp_path / "x.safetensors")
    tensor = read_safetensors(tmp_path / "x.safetensors")["a"]
    first, second = tensor.numpy(), tensor.numpy()
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


def test_unaligned_data_is_copied_into_an_aligned_read_only_array(tmp_path):
    header = json.dumps({"a": ENTRY}).encode() + b" "
    header += b" " * (-len(header) % 8 + 1)  # the reference pads headers to a multiple of 8
    path = write_raw(tmp_path / "x.safetensors", header, np.arange(6, dtype=np.float32).tobytes())
    array = read_safetensors(path)["a"].numpy()
    np.testing.assert_array_equal(array, np.arange(6, dtype=np.float32).reshape(2, 3), strict=True)
    assert array.flags.aligned
    assert not array.flags.writeable


def test_truncated_data(tmp_path):
    save_file({"a": np.ones((8, 8), np.float32)}, tmp_path / "x.safetensors")
    whole = (tmp_path / "x.safetensors").read_bytes()
    (tmp_path / "x.safetensors").write_bytes(whole[:-1])
    with refuses(CheckpointError, tmp_path / "x.safetensors", "tensor 'a'", "truncated", "download"):
        read_safetensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("keep", [1, 7, 8, 9, 40])
def test_truncated_header(tmp_path, keep):
    save_file({"a": np.ones((8, 8), np.float32)}, tmp_path / "x.safetensors")
    whole = (tmp_path / "x.safetensors").read_bytes()
    (tmp_path / "x.safetensors").write_bytes(whole[:keep])
    with refuses(CheckpointError, tmp_path / "x.safetensors", "truncated or corrupt: download"):
        read_safetensors(tmp_path / "x.safetensors")


def test_data_that_no_tensor_names(tmp_path):
    path = write_raw(tmp_path / "x.safetensors", {"a": ENTRY}, bytes(25))
    with refuses(CheckpointError, path, "25 bytes of data, but its tensors name 24"):
        read_safetensors(path)


@pytest.mark.parametrize(
    ("length", "found"), [(1 << 63, "9223372036854775808"), (200_000_000, "200000000"), (0, "not JSON")]
)
def test_header_length_that_can_not_be(tmp_path, length, found):
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", length) + b"{}      ")
    with refuses(CheckpointError, tmp_path / "x.safetensors", found, "download"):
        read_safetensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"\xff\xfe{}", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "not JSON"),
        (b'{"a": 1, "a": 2}', "key 'a' appears twice"),
        (["a"], "expected a JSON object, found list"),
        ({"__metadata__": []}, "__metadata__ in the header is not texts by name"),  # found by fuzzing
        ({"__metadata__": {"format": 1}}, "__metadata__ in the header is not texts by name"),
        ({"a": 5}, "expected an object"),
        ({"a": {}}, "unknown dtype None"),
        ({"a": ENTRY | {"dtype": "F4"}}, "unknown dtype 'F4'"),
        ({"a": ENTRY | {"dtype": ["F32"]}}, "unknown dtype ['F32']"),
        ({"a": ENTRY | {"shape": None}}, "shape None"),
        ({"a": ENTRY | {"shape": [-2, -3]}}, "shape [-2, -3]"),
        ({"a": ENTRY | {"shape": [2.0, 3]}}, "shape [2.0, 3]"),
        ({"a": ENTRY | {"shape": [True, 6]}}, "shape [True, 6]"),
        ({"a": ENTRY | {"shape": [1] * 65}}, "shape [1"),
        ({"a": ENTRY | {"shape": [0, 1 << 61]}}, "shape [0"),
        ({"a": ENTRY | {"shape": [1 << 40, 1 << 40]}}, "shape [1099511627776"),
        ({"a": ENTRY | {"shape": [2, 2]}}, "takes 16 bytes, but data_offsets give it 24"),
        ({"a": ENTRY | {"data_offsets": [24, 0]}}, "data_offsets [24, 0]"),
        ({"a": ENTRY | {"data_offsets": [-24, 0]}}, "data_offsets [-24, 0]"),
        ({"a": ENTRY | {"data_offsets": [0]}}, "data_offsets [0]"),
        ({"a": ENTRY | {"data_offsets": [8, 32]}}, "truncated"),
        ({"a": ENTRY, "b": ENTRY}, "tensors 'a' and 'b' overlap"),
        ({"a": ENTRY, "b": {"dtype": "U8", "shape": [1], "data_offsets": [23, 24]}}, "overlap"),
        ({"a": ENTRY, "b": {"dtype": "U8", "shape": [0], "data_offsets": [4, 4]}}, "overlap"),  # found by fuzzing
    ],
)
def test_header_that_contradicts_itself_or_the_file(tmp_path, header, found):
    path = write_raw(tmp_path / "x.safetensors", header, bytes(24))
    with refuses(CheckpointError, path, found):
        read_safetensors(path)


def test_empty_file(tmp_path):
    (tmp_path / "x.safetensors").touch()
    with refuses(CheckpointError, tmp_path / "x.safetensors", "empty", "download"):
        read_safetensors(tmp_path / "x.safetensors")


def test_directory_in_place_of_the_file(tmp_path):
    (tmp_path / "x.safetensors").mkdir()
    with refuses(CheckpointError, tmp_path / "x.safetensors", "expected a file, found a directory"):
        read_safetensors(tmp_path / "x.safetensors")


def test_missing_file(tmp_path):
    with refuses(CheckpointError, tmp_path / "x.safetensors", "no such file"):
        read_safetensors(tmp_path / "x.safetensors")
