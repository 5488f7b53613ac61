"""Arrays stacked over layers, and one layer's part of them.

A run of equal layers is one `lax.scan`. Its weights and caches are arrays with the layers as first axis, so that a
program takes one argument instead of one a layer, and a cache is written in place whatever layer is at work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

Value = Any


@dataclass(frozen=True)
class Part:
    """What one layer sees of a stacked array.

    stack: `[layers, ...]`. index: of the layer, a number or traced. origin: names the stack, before and after writes.
    state: whether it is written, as a cache is.
    """

    stack: Value
    index: Any
    origin: str
    state: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.stack.shape[1:])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.stack.dtype
        return dtype

    def read(self) -> Value:
        """The layer's own array."""
        return lax.dynamic_index_in_dim(self.stack, self.index, keepdims=False)

    def written(self, update: Value, corner: Sequence[Any]) -> "Part":
        """The same part after `update` was written at `corner` of it."""
        stack = lax.dynamic_update_slice(self.stack, update[None], (self.index, *corner))
        return replace(self, stack=stack)


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a table that others see whole: a product with the table is cut instead of the table."""

    table: Value
    rows: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, *self.table.shape[1:])

    @property
    def ndim(self) -> int:
        return int(self.table.ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.table.dtype
        return dtype

    def read(self) -> Value:
        """The rows alone."""
        return self.table[: self.rows]


@dataclass(frozen=True)
class Packed:
    """Weights that are one in the graph and arguments of their own here, or what is made of them; along `axis`."""

    pieces: tuple[Value, ...]
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        shape = list(self.pieces[0].shape)
        shape[self.axis] = sum(piece.shape[self.axis] for piece in self.pieces)
        return tuple(shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.pieces[0].dtype
        return dtype

    def read(self) -> Value:
        """All in one."""
        return jnp.concatenate([plain(piece) for piece in self.pieces], self.axis)


def plain(value: Value) -> Value:
    """The array itself, for an op that knows nothing of parts."""
    return value.read() if isinstance(value, Part | FirstRows | Packed) else value


def leaves(value: Value) -> tuple[Value, ...]:
    """The arrays, or parts of arrays, that a value is made of."""
    return value.pieces if isinstance(value, Packed) else (value,)
