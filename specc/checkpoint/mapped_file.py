"""A file mapped read-only into memory, which hands out nothing beyond its own end."""

import math
import mmap
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np

from specc.errors import CheckpointError


class MappedFile:
    """The bytes of one file. Pages are read when touched; arrays made from it keep the map alive.

    The pages of an array leave the process's memory with its last view: reading a checkpoint through never fills it.
    Raises CheckpointError if the path is missing, unreadable, empty or not a file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise CheckpointError(f"{path}: expected a file, found a directory; give the path of the file itself")
        try:
            with path.open("rb") as file:
                self.size = file.seek(0, 2)
                if self.size == 0:
                    raise CheckpointError(f"{path}: the file is empty; download or export it again")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self.view = memoryview(self._map)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file; check the path or download it again") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: can't be read ({error}); check its permissions and the disk") from error

    def array(self, start: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        """Read-only array over the bytes from `start`; a copy only where the file leaves them unaligned."""
        count = math.prod(shape)
        if start < 0 or start + count * dtype.itemsize > self.size:
            raise CheckpointError(f"{self.path}: asked for bytes beyond its end ({self.size}); the file is truncated")
        if count == 0:
            return _frozen(np.empty(shape, dtype))
        values = np.frombuffer(self.view, dtype, count, start)
        finalize(values, _forget, self._map, start, values.nbytes).atexit = False
        return values.reshape(shape) if values.flags.aligned else _frozen(values.reshape(shape).copy())


def _forget(mapped: mmap.mmap, start: int, size: int) -> None:
    """Let go of the pages that hold these bytes; whoever reads them again gets them from the file."""
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, first, start + size - first)


def check_extents(path: Path, extents: dict[str, tuple[int, int]], size: int) -> None:
    """Refuse tensors whose bytes, given as [start, stop) by name, leave the file's `size` bytes or share any."""
    previous, end = "", 0
    for name, (start, stop) in sorted(extents.items(), key=lambda item: item[1]):
        if start < 0 or stop > size:
            raise CheckpointError(
                f"{path}: tensor {name!r} lies at bytes {start}..{stop} of {size}; "
                "the file is truncated or corrupt: download or export it again"
            )
        if start < end:
            raise CheckpointError(
                f"{path}: tensors {previous!r} and {name!r} overlap at byte {start}; "
                "the file is corrupt: download or export it again"
            )
        previous, end = name, stop


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
