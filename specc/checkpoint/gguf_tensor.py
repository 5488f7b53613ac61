"""One GGUF tensor as a weight: plain types are views of the file, quantised ones are dequantised when asked for."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from specc.checkpoint.gguf_file import GgufFile, TensorInfo
from specc.checkpoint.mapped_file import MappedFile
from specc.errors import CheckpointError

_PLAIN: dict[GGMLQuantizationType, np.dtype[Any]] = {
    GGMLQuantizationType.F32: np.dtype("<f4"),
    GGMLQuantizationType.F16: np.dtype("<f2"),
    GGMLQuantizationType.BF16: np.dtype(ml_dtypes.bfloat16),
}
_CHUNK_ELEMENTS = 1 << 20  # dequantised at a time, so that temporaries stay at a few MiB for the largest embedding


@dataclass(frozen=True)
class GgufTensor:
    """A WeightTensor over a mapped GGUF file.

    row_order: the file's row that each row of the result is, where the converter moved them; None keeps them.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    file: MappedFile
    info: TensorInfo
    row_order: np.ndarray | None = None

    def numpy(self) -> np.ndarray:
        if self.info.type in _PLAIN:
            return self._plain()
        block, block_bytes = GGML_QUANT_SIZES[self.info.type]
        row_bytes = self.shape[-1] // block * block_bytes
        count = (self.info.stop - self.info.start) // row_bytes
        rows = self.file.array(self.info.start, np.dtype("u1"), (count, row_bytes))
        if self.row_order is not None:
            rows = rows[self.row_order]
        values = np.empty((count, self.shape[-1]), np.float32)
        step = max(1, _CHUNK_ELEMENTS // self.shape[-1])
        with np.errstate(all="ignore"):  # blocks whose scale is NaN or infinite dequantise to just that
            for start in range(0, count, step):
                values[start : start + step] = dequantize(rows[start : start + step], self.info.type)
        return values.reshape(self.shape)

    def _plain(self) -> np.ndarray:
        values = self.file.array(self.info.start, self.dtype, self.shape)
        if self.row_order is None:
            return values
        moved: np.ndarray = values[self.row_order]
        moved.flags.writeable = False
        return moved


def gguf_tensor(gguf: GgufFile, info: TensorInfo, name: str, row_order: np.ndarray | None = None) -> GgufTensor:
    """The tensor `info` under its new `name`; float32 unless the file holds F16 or BF16.

    Raises CheckpointError for types that hold no weights (integers) or that the gguf package can't dequantise.
    """
    if info.type not in _PLAIN and not _dequantisable(info.type):
        raise CheckpointError(
            f"{gguf.file.path}: tensor {info.name!r} is of type {info.type.name}, which the gguf package can't "
            "dequantise; take the model in another quantisation, e.g. Q8_0 or F16"
        )
    if row_order is not None and info.type not in _PLAIN and len(info.shape) != 2:
        raise CheckpointError(f"{gguf.file.path}: tensor {info.name!r} is quantised, expected F32; convert it again")
    dtype = _PLAIN.get(info.type, np.dtype(np.float32))
    return GgufTensor(name, info.shape, dtype, gguf.file, info, row_order)


@cache
def _dequantisable(kind: GGMLQuantizationType) -> bool:
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True
