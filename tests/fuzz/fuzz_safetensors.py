"""Coverage-guided fuzzing of the safetensors reader.

An even first byte: the rest is the file. An odd one: the rest is a header and data, and gets a true header length,
so that mutations reach what lies behind that check.
"""

import struct
import tempfile
from pathlib import Path

import atheris
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tests.fuzz.harness import check_refusal, fuzz

with atheris.instrument_imports(include=["specc"]):
    from specc.checkpoint.safetensors_file import read_safetensors
    from specc.errors import CheckpointError

FILE = Path(tempfile.mkdtemp()) / "fuzz.safetensors"


def file_content(data: bytes) -> bytes:
    if not data[:1] or data[0] % 2 == 0:
        return data[1:]
    header, _, rest = data[1:].partition(b"\0")
    return struct.pack("<Q", len(header)) + header + rest


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
    return [b"\0" + whole, b"\x01" + header + b"\0" + data]


if __name__ == "__main__":
    fuzz(one_input, seeds())
