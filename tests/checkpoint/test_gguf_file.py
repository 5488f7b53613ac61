import struct
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader

from specc.checkpoint.gguf_file import read_gguf
from specc.errors import CheckpointError
from tests.support.gguf_files import write_gguf
from tests.support.refusals import refuses

F32, Q8_0 = GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0
UINT32, STRING, ARRAY = 4, 8, 9  # GGUF value types


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, kind, payload):
    return text(key) + struct.pack("<I", kind) + payload


def tensor(name="t", dimensions=(8,), kind=int(F32), offset=0):
    return text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)


def header(*parts, entries=0, tensors=0, version=3, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, tensors, entries) + b"".join(parts)


def write_raw(path: Path, content: bytes, data: bytes = b"", alignment: int = 32) -> Path:
    path.write_bytes(content + b"\0" * (-len(content) % alignment) + data)
    return path


def test_header_equals_what_the_gguf_package_reads(tmp_path):
    metadata = {
        "general.architecture": "llama",
        "a.text": "naïve 😀",
        "a.count": 7,
        "a.flag": True,
        "a.ratio": 0.1,
        "a.names": ["x", "", "ÿ"],
        "a.numbers": np.array([1, -2, 3], np.int32),
    }
    rng = np.random.default_rng(0)
    tensors = {
        "half": rng.standard_normal((3, 5)).astype(np.float16),
        "full": rng.standard_normal((2, 3, 4)).astype(np.float32),
        "packed": (rng.standard_normal((4, 64)).astype(np.float32), Q8_0),
    }
    path = write_gguf(tmp_path / "x.gguf", metadata, tensors)
    ours, reference = read_gguf(path), GGUFReader(path)
    fields = {key: field.contents() for key, field in reference.fields.items() if not key.startswith("GGUF.")}
    assert {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in ours.metadata.items()} == fields
    assert ours.header_bytes == reference.data_offset
    assert list(ours.tensors) == [item.name for item in reference.tensors]
    for item in reference.tensors:
        info = ours.tensors[item.name]
        assert (info.type, info.start, info.stop) == (
            item.tensor_type,
            item.data_offset,
            item.data_offset + item.n_bytes,
        )
        assert info.shape == tuple(item.shape.tolist()[::-1])


def test_alignment_is_the_one_stated(tmp_path):
    content = header(entry("general.alignment", UINT32, struct.pack("<I", 64)), tensor(), entries=1, tensors=1)
    path = write_raw(tmp_path / "x.gguf", content, bytes(32), alignment=64)
    gguf = read_gguf(path)
    assert gguf.header_bytes == 128
    assert gguf.tensors["t"].start == 128


@pytest.mark.parametrize("version", [2, 3])
def test_versions_2_and_3_are_read(tmp_path, version):
    path = write_raw(tmp_path / "x.gguf", header(tensor(), tensors=1, version=version), bytes(32))
    assert read_gguf(path).tensors["t"].shape == (8,)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (header(magic=b"GGML"), "not a GGUF file"),
        (header(version=1), "GGUF version 1"),
        (header(version=4), "GGUF version 4"),
        (header(version=3 << 24), "big-endian"),
        (header(tensors=1 << 60), "claims 1152921504606846976 tensors"),
        (header(entries=1 << 60), "1152921504606846976 metadata entries"),
        (header(entries=5), "claims 0 tensors and 5 metadata entries in 64 bytes"),
        (header(struct.pack("<Q", 1 << 63), bytes(32), entries=1), "a metadata key needs 9223372036854775808 bytes"),
        (header(entry("k", STRING, text(b"\xff" * 9)), entries=1), "metadata 'k' at byte 37 is not UTF-8"),
        (header(entry("k", 13, bytes(16)), entries=1), "metadata 'k' has unknown type 13"),
        (
            header(entry("k", ARRAY, struct.pack("<IQ", STRING, 1 << 61)), entries=1),
            "claims 2305843009213693952 strings",
        ),
        (header(entry("k", ARRAY, struct.pack("<IQ", UINT32, 1 << 61)), entries=1), "needs 9223372036854775808 bytes"),
        (header(entry("k", ARRAY, struct.pack("<IQ", ARRAY, 1)), entries=1), "array of arrays"),
        (header(entry("k", UINT32, bytes(4)), entry("k", UINT32, bytes(4)), entries=2), "key 'k' appears twice"),
        (header(entry("general.alignment", UINT32, struct.pack("<I", 0)), entries=1), "alignment is 0"),
        (header(entry("general.alignment", UINT32, struct.pack("<I", 24)), entries=1), "alignment is 24"),
        (header(entry("general.alignment", STRING, text("32")), entries=1), "of type str, expected an integer"),
        (header(entry("split.count", UINT32, struct.pack("<I", 3)), entries=1), "one of 3 parts"),
        (header(tensor(dimensions=()), tensors=1), "0 dimensions"),
        (header(tensor(dimensions=(1,) * 5), tensors=1), "5 dimensions"),
        (header(tensor(dimensions=(8, 0)), tensors=1), "dimensions (8, 0)"),
        (header(tensor(dimensions=(1 << 63, 1 << 63)), tensors=1), "impossible for F32"),
        (header(tensor(dimensions=(33,), kind=int(Q8_0)), tensors=1), "impossible for Q8_0 (blocks of 32)"),
        (header(tensor(kind=4), tensors=1), "unknown type 4"),
        (header(tensor(kind=1 << 31), tensors=1), "unknown type 2147483648"),
        (header(tensor(offset=32), tensors=1), "beyond"),
        (header(tensor(offset=1 << 63), tensors=1), "beyond"),
        (header(tensor(offset=4), tensors=1), "multiple of 32"),
        (header(tensor(), tensor(), tensors=2), "tensor 't' appears twice"),
        (header(tensor("a"), tensor("b"), tensors=2), "tensors 'a' and 'b' overlap"),
    ],
)
def test_header_that_contradicts_itself_or_the_file(tmp_path, content, found):
    path = write_raw(tmp_path / "x.gguf", content, bytes(32))
    with refuses(CheckpointError, path, "lies at bytes" if found == "beyond" else found):
        read_gguf(path)


def test_every_truncation_of_a_file_is_refused(tmp_path):
    metadata = {"general.architecture": "llama", "a.names": ["x", "yy"], "a.numbers": np.arange(3, dtype=np.int32)}
    whole = write_gguf(tmp_path / "x.gguf", metadata, {"t": np.ones((2, 8), np.float32)}).read_bytes()
    for size in range(1, len(whole)):
        (tmp_path / "x.gguf").write_bytes(whole[:size])
        with refuses(CheckpointError, tmp_path / "x.gguf", "truncated or corrupt"):
            read_gguf(tmp_path / "x.gguf")


def test_empty_file(tmp_path):
    (tmp_path / "x.gguf").touch()
    with refuses(CheckpointError, tmp_path / "x.gguf", "empty", "download"):
        read_gguf(tmp_path / "x.gguf")


def test_directory_in_place_of_the_file(tmp_path):
    with refuses(CheckpointError, tmp_path, "expected a file, found a directory"):
        read_gguf(tmp_path)
