"""A GGUF file's header: typed metadata and where each tensor's bytes lie, every length checked against the file.

The layout is that of ggml's GGUF specification, versions 2 and 3, little-endian: magic, version, tensor count, metadata
count, the metadata, the tensor infos, padding to `general.alignment`, data. The `gguf` package's own reader trusts the
counts it finds and keeps an array object per metadata element, so the header is read here; its tables of tensor types
and its dequantisers are used.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from specc.checkpoint.gguf_metadata import Metadata
from specc.checkpoint.mapped_file import MappedFile, check_extents
from specc.errors import CheckpointError

_MAGIC = b"GGUF"
_AGAIN = "the file is truncated or corrupt: download it again"
_VERSIONS = (2, 3)
_MAX_RANK = 4  # ggml's
_MAX_COUNT = 1 << 60  # elements or bytes; beyond any file, within numpy's index type
_MIN_ENTRY_BYTES = 8 + 4 + 1  # a metadata entry's or tensor info's name length, type and first byte
_DEFAULT_ALIGNMENT = 32

_NUMBERS: dict[GGUFValueType, np.dtype[Any]] = {
    GGUFValueType.UINT8: np.dtype("u1"),
    GGUFValueType.INT8: np.dtype("i1"),
    GGUFValueType.UINT16: np.dtype("<u2"),
    GGUFValueType.INT16: np.dtype("<i2"),
    GGUFValueType.UINT32: np.dtype("<u4"),
    GGUFValueType.INT32: np.dtype("<i4"),
    GGUFValueType.UINT64: np.dtype("<u8"),
    GGUFValueType.INT64: np.dtype("<i8"),
    GGUFValueType.FLOAT32: np.dtype("<f4"),
    GGUFValueType.FLOAT64: np.dtype("<f8"),
    GGUFValueType.BOOL: np.dtype("?"),
}


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as the header describes it. shape: slowest axis first, as numpy has it; bytes `[start, stop)`."""

    name: str
    shape: tuple[int, ...]
    type: GGMLQuantizationType
    start: int
    stop: int


@dataclass(frozen=True)
class GgufFile:
    """An opened GGUF file.

    header_bytes: where the data section starts.
    """

    file: MappedFile
    metadata: Metadata
    tensors: Mapping[str, TensorInfo]
    header_bytes: int


def read_gguf(path: Path) -> GgufFile:
    """Read a GGUF file's header. Raises CheckpointError if any part of it contradicts the file."""
    file = MappedFile(path)
    cursor = _Cursor(file)
    _check_version(path, cursor)
    tensor_count = cursor.number("<Q", "the tensor count")
    entry_count = cursor.number("<Q", "the metadata count")
    if (tensor_count + entry_count) * _MIN_ENTRY_BYTES > file.size:
        raise CheckpointError(
            f"{path}: claims {tensor_count} tensors and {entry_count} metadata entries in {file.size} bytes; {_AGAIN}"
        )
    metadata = _read_metadata(cursor, entry_count)
    parts = metadata.integer("split.count")
    if parts is not None and parts > 1:
        raise CheckpointError(f"{path}: one of {parts} parts; join them with llama.cpp's llama-gguf-split --merge")
    infos = [_read_tensor_info(cursor) for _ in range(tensor_count)]
    alignment = _alignment(metadata)
    data_start = -(-cursor.position // alignment) * alignment
    return GgufFile(file, metadata, _place_tensors(file, infos, data_start, alignment), data_start)


def _read_metadata(cursor: "_Cursor", count: int) -> Metadata:
    values: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.text("a metadata key")
        if key in values:
            raise CheckpointError(f"{cursor.file.path}: metadata key {key!r} appears twice; {_AGAIN}")
        values[key] = _read_value(cursor, key)
    return Metadata(cursor.file.path, values)


def _place_tensors(file: MappedFile, infos: list[TensorInfo], data_start: int, alignment: int) -> dict[str, TensorInfo]:
    """Tensors by name with offsets from the file's start, each aligned, inside the file and apart from the others."""
    tensors: dict[str, TensorInfo] = {}
    for info in infos:
        if info.name in tensors:
            raise CheckpointError(f"{file.path}: tensor {info.name!r} appears twice; {_AGAIN}")
        if info.start % alignment:
            raise CheckpointError(
                f"{file.path}: tensor {info.name!r} does not start at a multiple of {alignment}; {_AGAIN}"
            )
        tensors[info.name] = replace(info, start=data_start + info.start, stop=data_start + info.stop)
    check_extents(file.path, {name: (info.start, info.stop) for name, info in tensors.items()}, file.size)
    return tensors


class _Cursor:
    """Reads a header front to back and never past the file's end."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        self.position = 0

    def take(self, count: int, what: str) -> memoryview:
        """The next `count` bytes; `what` names them in the error if the file ends before."""
        stop = self.position + count
        if stop > self.file.size:
            raise CheckpointError(
                f"{self.file.path}: {what} needs {count} bytes at {self.position}, beyond the file's {self.file.size}; "
                f"{_AGAIN}"
            )
        part = self.file.view[self.position : stop]
        self.position = stop
        return part

    def number(self, form: str, what: str) -> Any:
        """The next number, of struct format `form`."""
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def text(self, what: str) -> str:
        """The next string: 8 bytes of length, then UTF-8."""
        start = self.position
        raw = self.take(self.number("<Q", what), what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError(
                f"{self.file.path}: {what} at byte {start} is not UTF-8 ({error}); {_AGAIN}"
            ) from None


def _check_version(path: Path, cursor: _Cursor) -> None:
    magic = bytes(cursor.take(4, "the magic number"))
    if magic != _MAGIC:
        raise CheckpointError(
            f"{path}: not a GGUF file (it starts with {magic!r}); check the path or download it again"
        )
    version = cursor.number("<I", "the version")
    if version in _VERSIONS:
        return
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if swapped in _VERSIONS:
        raise CheckpointError(f"{path}: a big-endian GGUF; convert it with the gguf package's gguf-convert-endian")
    raise CheckpointError(f"{path}: GGUF version {version}; specc reads versions 2 and 3: convert the model again")


def _read_value(cursor: _Cursor, key: str) -> Any:
    what = f"metadata {key!r}"
    kind = _value_type(cursor, what)
    if kind is GGUFValueType.STRING:
        return cursor.text(what)
    if kind is not GGUFValueType.ARRAY:
        dtype = _NUMBERS[kind]
        return np.frombuffer(cursor.take(dtype.itemsize, what), dtype)[0].item()
    kind = _value_type(cursor, what)
    count = cursor.number("<Q", what)
    if kind is GGUFValueType.STRING:
        if count * 8 > cursor.file.size:  # each has 8 bytes of length
            raise CheckpointError(f"{cursor.file.path}: {what} claims {count} strings; {_AGAIN}")
        return [cursor.text(what) for _ in range(count)]
    if kind is GGUFValueType.ARRAY:
        raise CheckpointError(
            f"{cursor.file.path}: {what} is an array of arrays, which no model specc reads has; {_AGAIN}"
        )
    dtype = _NUMBERS[kind]
    return np.frombuffer(cursor.take(count * dtype.itemsize, what), dtype)


def _value_type(cursor: _Cursor, what: str) -> GGUFValueType:
    raw = cursor.number("<I", what)
    try:
        return GGUFValueType(raw)
    except ValueError:
        raise CheckpointError(f"{cursor.file.path}: {what} has unknown type {raw}; {_AGAIN}") from None


def _read_tensor_info(cursor: _Cursor) -> TensorInfo:
    """The next tensor, its bytes counted from the start of the data section."""
    path = cursor.file.path
    name = cursor.text("a tensor name")
    what = f"tensor {name!r}"
    rank = cursor.number("<I", what)
    if not 1 <= rank <= _MAX_RANK:
        raise CheckpointError(f"{path}: {what} has {rank} dimensions, expected 1 to {_MAX_RANK}; {_AGAIN}")
    fastest_first = struct.unpack(f"<{rank}Q", cursor.take(8 * rank, what))
    raw_type = cursor.number("<I", what)
    offset = cursor.number("<Q", what)
    try:
        kind = GGMLQuantizationType(raw_type)
        block, block_bytes = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise CheckpointError(
            f"{path}: {what} has unknown type {raw_type}; convert the model to a type ggml knows, or update gguf"
        ) from None
    elements = math.prod(fastest_first)
    if not 0 < elements < _MAX_COUNT or fastest_first[0] % block:
        raise CheckpointError(
            f"{path}: {what} has dimensions {fastest_first}, impossible for {kind.name} (blocks of {block}); {_AGAIN}"
        )
    return TensorInfo(name, fastest_first[::-1], kind, offset, offset + elements // block * block_bytes)


def _alignment(metadata: Metadata) -> int:
    alignment = metadata.integer("general.alignment")
    if alignment is None:
        return _DEFAULT_ALIGNMENT
    if alignment <= 0 or alignment & (alignment - 1):
        raise CheckpointError(f"{metadata.path}: general.alignment is {alignment}, not a power of two; {_AGAIN}")
    return alignment
