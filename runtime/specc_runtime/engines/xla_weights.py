"""The weights file of a bundle as device arrays, each made once for all programs that take it."""

import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.xla_devices import Devices
from specc_runtime.errors import IntegrityError
from specc_runtime.manifest import LAYER, WEIGHTS_FILE, WeightSpec

_DTYPES = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "U8": "uint8",
    "I8": "int8",
    "I32": "int32",
    "I64": "int64",
}
_NARROWED = {"int64": "int32"}  # of values that fit: JAX computes in 32 bits


class Weights:
    """Weight arguments by what the manifest says of them."""

    def __init__(self, bundle: Bundle, devices: Devices) -> None:
        self._devices = devices
        self._path = bundle.path(WEIGHTS_FILE)
        self._start, self._entries = self._header()
        self._arrays: dict[WeightSpec, jax.Array] = {}

    def __getitem__(self, spec: WeightSpec) -> jax.Array:
        """Raises IntegrityError: the file lacks a weight, or has it in another shape or dtype."""
        if spec not in self._arrays:
            array = self._stacked(spec) if LAYER in spec.source else self._rows(spec)
            self._arrays[spec] = jnp.asarray(array, device=self._devices.holding(spec))
        return self._arrays[spec]

    def _stacked(self, spec: WeightSpec) -> NDArray[Any]:
        layers, *shape = spec.shape
        stack = np.empty(spec.shape, jnp.dtype(_NARROWED.get(spec.dtype, spec.dtype)))
        for number in range(layers):
            name = spec.source.replace(LAYER, str(spec.first + number))
            stack[number] = self._rows(WeightSpec(name, spec.dtype, tuple(shape), start=spec.start))
        return stack

    def _rows(self, spec: WeightSpec) -> NDArray[Any]:
        entry = self._entries.get(spec.source)
        if entry is None:
            raise IntegrityError(f"{self._path}: has no weight {spec.source!r}; re-copy or re-compile the bundle")
        dtype, shape, offset = _DTYPES.get(entry["dtype"], ""), tuple(entry["shape"]), entry["data_offsets"][0]
        enough = not shape or spec.start + spec.shape[0] <= shape[0]
        if dtype != spec.dtype or shape[1:] != spec.shape[1:] or len(shape) != len(spec.shape) or not enough:
            raise IntegrityError(
                f"{self._path}: weight {spec.source!r} is {dtype}{list(shape)}, a program takes "
                f"{spec.dtype}{list(spec.shape)}; re-copy or re-compile the bundle"
            )
        skipped = spec.start * math.prod(shape[1:]) * jnp.dtype(dtype).itemsize
        mapped = np.memmap(self._path, jnp.dtype(dtype), "r", self._start + offset + skipped, spec.shape)
        narrow = _NARROWED.get(dtype)
        return mapped if narrow is None else mapped.astype(narrow)

    def _header(self) -> tuple[int, Mapping[str, Any]]:
        """Where the tensors start, and the table of what lies where."""
        try:
            with self._path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                entries = json.loads(file.read(size))
        except (OSError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise IntegrityError(f"{self._path}: can't be read ({reason}); re-copy or re-compile the bundle") from None
        return 8 + size, entries
