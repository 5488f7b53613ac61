"""Coverage-guided fuzzing of the safetensors reader.

The first byte says what the rest is: the file; a header and data, which get a true header length; or choices that make
the header of a nearly good file. So mutations reach what lies behind each check.
"""

import json
import math
import struct

import atheris
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tests.fuzz.harness import check_refusal, fuzz, scratch_file

with atheris.instrument_imports(include=["specc"]):
    from specc.checkpoint.safetensors_file import read_safetensors
    from specc.errors import CheckpointError

FILE = scratch_file("fuzz.safetensors")
SIZES = [2, 1, 3, 0, 64, -1, 1 << 31, 1 << 59, 1 << 63]
OFFSETS = [0, 4, -4, 8, 1 << 31, 1 << 62, 1 << 64]


def file_content(data: bytes) -> bytes:
    kind, rest = data[:1], data[1:]
    if not kind or kind[0] % 3 == 0:
        return rest
    header, data = rest.split(b"\0", 1) if kind[0] % 3 == 1 and b"\0" in rest else nearly_good(rest)
    return struct.pack("<Q", len(header)) + header + data


def nearly_good(data: bytes) -> tuple[bytes, bytes]:
    """A header of up to four tensors, most of them sound, and data for them."""
    choose = atheris.FuzzedDataProvider(data)
    header, stop = {}, 0
    for index in range(choose.ConsumeIntInRange(1, 4)):
        dtype = choose.PickValueInList(["F32", "BF16", "U8", "F64", "BOOL", "F4"])
        shape = [choose.PickValueInList(SIZES) for _ in range(choose.ConsumeIntInRange(0, 3))]
        start = stop if choose.ConsumeIntInRange(0, 7) else choose.PickValueInList(OFFSETS)
        size = math.prod(shape) * {"F32": 4, "BF16": 2, "F64": 8}.get(dtype, 1)
        stop = start + (size if choose.ConsumeIntInRange(0, 7) else choose.PickValueInList(OFFSETS))
        header[f"t{index}"] = {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}
    size = stop if 0 <= stop <= 4096 else 64
    return json.dumps(header).encode(), bytes(
        size if choose.ConsumeIntInRange(0, 7) else choose.PickValueInList([0, 3])
    )


def one_input(data: bytes) -> None:
    """The reader reads the file or raises CheckpointError; what it reads, the reference implementation reads too."""
    FILE.write_bytes(file_content(data))
    try:
        tensors = read_safetensors(FILE)
    except CheckpointError as error:
        check_refusal(error)
        return
    values = {name: tensor.numpy() for name, tensor in tensors.items()}
    try:
        with safe_open(FILE, "numpy") as reference:
            assert set(reference.keys()) == set(values)
            for name, array in values.items():
                assert array.tobytes() == reference.get_tensor(name).tobytes()
    except SafetensorError as error:
        raise AssertionError("read a file that the reference implementation refuses") from error


def seeds() -> list[bytes]:
    whole = save({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(4, np.float16)}, {"format": "pt"})
    (length,) = struct.unpack("<Q", whole[:8])
    header, data = whole[8 : 8 + length], whole[8 + length :]
    return [b"\0" + whole, b"\x01" + header + b"\0" + data, b"\x02"]


if __name__ == "__main__":
    fuzz(one_input, seeds())
