"""GGUF metadata with the types a reader expects; the file may hold anything under any key."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from specc.errors import CheckpointError

_T = TypeVar("_T")
_AGAIN = "convert the model again"


class Metadata(Mapping[str, Any]):
    """Metadata of the file at `path`: int, float, bool, str, list[str] or numpy array of numbers by key.

    Each typed getter returns None where the key is absent and raises CheckpointError where it holds another type.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, key: str) -> str | None:
        return self._typed(key, str, "text")

    def flag(self, key: str) -> bool | None:
        return self._typed(key, bool, "a bool")

    def integer(self, key: str) -> int | None:
        return self._typed(key, int, "an integer")

    def count(self, key: str) -> int | None:
        """An integer above 0."""
        value = self.integer(key)
        if value is not None and value <= 0:
            raise CheckpointError(f"{self.path}: metadata {key!r} is {value}, expected 1 or more; {_AGAIN}")
        return value

    def number(self, key: str) -> float | None:
        """A finite float; one stored in 32 bits comes back as the shortest decimal that means it (1e-05, 10000.0)."""
        value = self._typed(key, float, "a float")
        if value is None:
            return None
        if not math.isfinite(value):
            raise CheckpointError(f"{self.path}: metadata {key!r} is {value}, expected a finite number; {_AGAIN}")
        with np.errstate(over="ignore"):
            short = np.float32(value)
        return float(str(short)) if float(short) == value else value

    def texts(self, key: str) -> list[str] | None:
        return self._typed(key, list, "an array of strings")

    def numbers(self, key: str) -> np.ndarray | None:
        return self._typed(key, np.ndarray, "an array of numbers")

    def required(self, key: str, value: _T | None) -> _T:
        """`value`, got from `key`, unless it is absent: then CheckpointError."""
        if value is None:
            raise CheckpointError(f"{self.path}: has no metadata {key!r}; {_AGAIN}")
        return value

    def _typed(self, key: str, kind: type[_T], words: str) -> _T | None:
        value = self._values.get(key)
        if value is None or type(value) is kind:
            return value
        raise CheckpointError(
            f"{self.path}: metadata {key!r} is of type {type(value).__name__}, expected {words}; {_AGAIN}"
        )
