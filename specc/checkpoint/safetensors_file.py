"""One safetensors file: a length, a JSON header, then the tensors' bytes, mapped and never copied.

The `safetensors` package copies each tensor when it loads into numpy, so the header is read here. Layout: 8 bytes of
little-endian header length, the header `{name: {"dtype", "shape", "data_offsets": [start, stop]}}` with offsets
counted from the header's end, and one data section without gaps.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np

from specc.checkpoint.json_file import parse_json_object
from specc.checkpoint.mapped_file import MappedFile, check_extents
from specc.errors import CheckpointError

_AGAIN = "the file is truncated or corrupt: download or export it again"
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000  # the limit of the reference implementation
_MAX_RANK = 64  # numpy's
_MAX_COUNT = 1 << 60  # elements or bytes; beyond any file, within numpy's index type

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


@dataclass(frozen=True)
class SafetensorsTensor:
    """A WeightTensor over a mapped safetensors file; `numpy()` is a read-only view of the map."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    file: MappedFile
    start: int

    def numpy(self) -> np.ndarray:
        return self.file.array(self.start, self.dtype, self.shape)


def read_safetensors(path: Path) -> dict[str, SafetensorsTensor]:
    """Tensors of one file by name, in file order; only the header is read.

    Raises CheckpointError if any length, offset, dtype or shape contradicts the file or another tensor.
    """
    file = MappedFile(path)
    header, data_start = _read_header(file)
    tensors: dict[str, SafetensorsTensor] = {}
    extents: dict[str, tuple[int, int]] = {}
    notes = header.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise CheckpointError(f"{path}: __metadata__ in the header is not texts by name; {_AGAIN}")
    for name, entry in header.items():
        dtype, shape, start, stop = _read_entry(path, name, entry)
        extents[name] = (data_start + start, data_start + stop)
        tensors[name] = SafetensorsTensor(name, shape, dtype, file, data_start + start)
    check_extents(path, extents, file.size)
    held = sum(stop - start for start, stop in extents.values())
    if held != file.size - data_start:
        raise CheckpointError(
            f"{path}: {file.size - data_start} bytes of data, but its tensors name {held} of them; {_AGAIN}"
        )
    return tensors


def _read_header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """The header's JSON object, and where the data section starts."""
    length = int.from_bytes(file.view[:_LENGTH_BYTES], "little")
    data_start = _LENGTH_BYTES + length
    if file.size < _LENGTH_BYTES or data_start > file.size or length > _MAX_HEADER_BYTES:
        raise CheckpointError(
            f"{file.path}: not a whole safetensors file (header of {length} bytes in a file of {file.size}); {_AGAIN}"
        )
    text = bytes(file.view[_LENGTH_BYTES:data_start])
    return parse_json_object(text, f"{file.path}: header", _AGAIN, unique_keys=True), data_start


def _read_entry(path: Path, name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """dtype, shape and data offsets of one header entry, consistent with each other."""
    where = f"{path}: tensor {name!r}"
    if not isinstance(entry, dict):
        raise CheckpointError(f"{where}: expected an object in the header, found {entry!r:.80}; {_AGAIN}")
    dtype_name, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    dtype = _DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
    if dtype is None:
        raise CheckpointError(f"{where}: unknown dtype {dtype_name!r:.40}; convert it to one of {', '.join(_DTYPES)}")
    if not _is_counts(shape) or math.prod(max(size, 1) for size in shape) >= _MAX_COUNT:
        raise CheckpointError(f"{where}: shape {shape!r:.80} is not a list of sizes; {_AGAIN}")
    if not _is_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError(f"{where}: data_offsets {offsets!r:.80} are not [start, stop]; {_AGAIN}")
    start, stop = offsets
    expected = math.prod(shape) * dtype.itemsize
    if expected != stop - start:
        raise CheckpointError(
            f"{where}: {dtype_name} {shape!r:.80} takes {expected} bytes, but data_offsets give it {stop - start}; "
            f"{_AGAIN}"
        )
    return dtype, tuple(shape), start, stop


def _is_counts(value: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= _MAX_RANK
        and all(type(item) is int and 0 <= item < _MAX_COUNT for item in value)
    )
