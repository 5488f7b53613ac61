"""The one weights file of a bundle: every graph's initializers, each once, in safetensors layout."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from specc.core.initializers import STORED_AS, stored_name
from specc.errors import CompileError

WEIGHTS_FILE = "weights.safetensors"
ALIGNMENT = 64  # bytes: a cache line, and the widest vector load

_NAMES = {
    ir.DataType.FLOAT: "F32",
    ir.DataType.FLOAT16: "F16",
    ir.DataType.BFLOAT16: "BF16",
    ir.DataType.UINT8: "U8",
    ir.DataType.INT8: "I8",
    ir.DataType.INT32: "I32",
    ir.DataType.INT64: "I64",
    ir.DataType.BOOL: "BOOL",
}


@dataclass(frozen=True)
class Extent:
    """Where a tensor lies in the weights file, in bytes from its start."""

    offset: int
    length: int


class WeightStore:
    """Collects initializers by name and writes them in the order they came.

    Graphs name the same weight alike, whatever shape they see it in: its bytes are written once.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, ir.TensorProtocol] = {}
        self._shared: set[str] = set()  # tables of which some graph reads the first rows only
        self._extents: dict[str, Extent] = {}

    def add(self, model: ir.Model) -> None:
        """Take every initializer of `model`; of a table and its first rows, the table.

        Raises CompileError when a name stands for two different weights.
        """
        for value in model.graph.initializers.values():
            tensor, name = _tensor(value), stored_name(value)
            if STORED_AS in value.metadata_props:
                self._shared.add(name)
            known = self._tensors.get(name)
            if known is not None and known.nbytes != tensor.nbytes and name not in self._shared:
                raise CompileError(f"weight '{name}' has two sizes: {known.nbytes} and {tensor.nbytes} bytes")
            if known is None or tensor.nbytes > known.nbytes:
                self._tensors[name] = tensor

    @property
    def total_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def write(self, path: Path, advance: Callable[[int], None]) -> None:
        """Write the file, one tensor in memory at a time. advance: told the bytes written since the last call."""
        header, self._extents = self._layout()
        with path.open("wb") as file:
            file.write(header)
            for name, tensor in self._tensors.items():
                file.write(b"\0" * (self._extents[name].offset - file.tell()))
                array = np.ascontiguousarray(tensor.numpy())
                if array.nbytes != tensor.nbytes:
                    raise CompileError(f"weight '{name}' came out as {array.nbytes} bytes, expected {tensor.nbytes}")
                file.write(memoryview(array.reshape(-1).view(np.uint8)))
                advance(tensor.nbytes)
            file.flush()
            os.fsync(file.fileno())

    def point_into_file(self, model: ir.Model) -> None:
        """Make every initializer of `model` a reference into the written file."""
        for value in model.graph.initializers.values():
            tensor = _tensor(value)
            value.const_value = ir.ExternalTensor(
                WEIGHTS_FILE,
                self._extents[stored_name(value)].offset,
                tensor.nbytes,
                tensor.dtype,
                shape=ir.Shape(tensor.shape),
                name=value.name or "",
            )

    def _layout(self) -> tuple[bytes, dict[str, Extent]]:
        """The safetensors header and each tensor's place. Gaps up to the alignment are tensors of their own ("pad.N")."""
        entries: dict[str, object] = {}
        places: dict[str, int] = {}
        end = 0
        for name, tensor in self._tensors.items():
            start = -(-end // ALIGNMENT) * ALIGNMENT
            if start > end:
                entries[f"pad.{len(entries)}"] = {"dtype": "U8", "shape": [start - end], "data_offsets": [end, start]}
            end = start + tensor.nbytes
            entries[name] = {
                "dtype": _NAMES[tensor.dtype],
                "shape": list(tensor.shape.numpy()),
                "data_offsets": [start, end],
            }
            places[name] = start
        text = json.dumps(entries, separators=(",", ":")).encode()
        text += b" " * (-(len(text) + 8) % ALIGNMENT)
        header = len(text).to_bytes(8, "little") + text
        return header, {n: Extent(len(header) + s, self._tensors[n].nbytes) for n, s in places.items()}


def _tensor(value: ir.Value) -> ir.TensorProtocol:
    if value.const_value is None:
        raise CompileError(f"initializer '{value.name}' has no values")
    return value.const_value
