"""The one weights file of a bundle: every graph's initializers, each once, in safetensors layout."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.initializers import STORED_AS, part_of, stored_name
from specc.core.inspection import tensor_of
from specc.errors import CompileError
from specc_runtime.manifest import WEIGHTS_FILE

ALIGNMENT = 64  # bytes: a cache line, and the widest vector load
PAD_PREFIX = "pad."  # names of the gaps up to the alignment, which are tensors of their own

_NAMES = {
    ir.DataType.FLOAT: "F32",
    ir.DataType.FLOAT16: "F16",
    ir.DataType.BFLOAT16: "BF16",
    ir.DataType.UINT8: "U8",
    ir.DataType.INT8: "I8",
    ir.DataType.FLOAT8E4M3FN: "F8_E4M3",
    ir.DataType.INT32: "I32",
    ir.DataType.INT64: "I64",
    ir.DataType.BOOL: "BOOL",
}


@dataclass(frozen=True)
class StoredWeight:
    """One weight of the file. owner: the graph that brought it first. part: its row of the precision policy there."""

    owner: str
    part: str
    tensor: ir.TensorProtocol


class WeightStore:
    """Collects initializers by name and writes them in the order they came.

    Graphs name the same weight alike, whatever shape they see it in: its bytes are written once.
    """

    def __init__(self) -> None:
        self._weights: dict[str, StoredWeight] = {}
        self._shared: set[str] = set()  # tables of which some graph reads the first rows only
        self._offsets: dict[str, int] = {}  # of the written file, from its start

    def add(self, model: ir.Model) -> None:
        """Take every initializer of `model`; of a table and its first rows, the table.

        Raises CompileError when a name stands for two different weights.
        """
        for value in model.graph.initializers.values():
            tensor, name = tensor_of(value), stored_name(value)
            if STORED_AS in value.metadata_props:
                self._shared.add(name)
            known = self._weights.get(name)
            if known is None:
                self._weights[name] = StoredWeight(model.graph.name or "", part_of(value), tensor)
            elif known.tensor.nbytes != tensor.nbytes and name not in self._shared:
                raise CompileError(f"weight '{name}' has two sizes: {known.tensor.nbytes} and {tensor.nbytes} bytes")
            elif tensor.nbytes > known.tensor.nbytes:
                self._weights[name] = replace(known, tensor=tensor)

    @property
    def weights(self) -> Mapping[str, StoredWeight]:
        """What the file holds, by name."""
        return self._weights

    @property
    def total_bytes(self) -> int:
        return sum(weight.tensor.nbytes for weight in self._weights.values())

    def write(self, path: Path, advance: Callable[[int], None]) -> None:
        """Write the file, one tensor in memory at a time. advance: told the bytes written since the last call."""
        header, self._offsets = self._layout()
        with path.open("wb") as file:
            file.write(header)
            for name, weight in self._weights.items():
                file.write(b"\0" * (self._offsets[name] - file.tell()))
                file.write(_content(name, weight.tensor).data)
                advance(weight.tensor.nbytes)
            file.flush()
            os.fsync(file.fileno())

    def point_into_file(self, model: ir.Model) -> None:
        """Make every initializer of `model` a reference into the written file."""
        for value in model.graph.initializers.values():
            tensor = tensor_of(value)
            value.const_value = ir.ExternalTensor(
                WEIGHTS_FILE,
                self._offsets[stored_name(value)],
                tensor.nbytes,
                tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()),
                name=value.name or "",
            )

    def _layout(self) -> tuple[bytes, dict[str, int]]:
        """The safetensors header and where each tensor starts."""
        entries: dict[str, object] = {}
        starts: dict[str, int] = {}
        end = 0
        for name, weight in self._weights.items():
            start = -(-end // ALIGNMENT) * ALIGNMENT
            if start > end:
                pad = {"dtype": "U8", "shape": [start - end], "data_offsets": [end, start]}
                entries[f"{PAD_PREFIX}{len(entries)}"] = pad
            end = start + weight.tensor.nbytes
            shape, kind = list(weight.tensor.shape.numpy()), _NAMES.get(weight.tensor.dtype)
            if kind is None:  # two values a byte, which the format has no name for
                shape, kind = [weight.tensor.nbytes], "U8"
            entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
            starts[name] = start
        text = json.dumps(entries, separators=(",", ":")).encode()
        text += b" " * (-(len(text) + 8) % ALIGNMENT)
        header = len(text).to_bytes(8, "little") + text
        return header, {name: len(header) + start for name, start in starts.items()}


def _content(name: str, tensor: ir.TensorProtocol) -> NDArray[np.uint8]:
    if tensor.dtype == ir.DataType.INT4:
        return np.frombuffer(tensor.tobytes(), np.uint8)
    array = np.ascontiguousarray(tensor.numpy())
    if array.nbytes != tensor.nbytes:
        raise CompileError(f"weight '{name}' came out as {array.nbytes} bytes, expected {tensor.nbytes}")
    return array.reshape(-1).view(np.uint8)
