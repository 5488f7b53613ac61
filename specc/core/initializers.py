"""Initializers of a core graph: weights that are read when they are written, each labelled with its precision part."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.inspection import static_shape, tensor_of

PART = "specc.part"  # metadata key: the row of the precision policy an initializer belongs to
STORED_AS = "specc.stored_as"  # metadata key: the initializer whose first rows this one is, so that bytes are shared

Array = NDArray[Any]


def lazy_initializer(
    name: str, part: str, shape: Sequence[int], dtype: np.dtype[Any], read: Callable[[], Array]
) -> ir.Value:
    """An initializer whose values are made by `read` each time they are asked for, and not kept."""

    def tensor() -> ir.Tensor[Any]:
        return ir.Tensor(np.ascontiguousarray(read()), name=name)

    return _value(
        name,
        part,
        ir.LazyTensor(tensor, ir.DataType.from_numpy(dtype), ir.Shape(shape), cache=False, name=name),
    )


def initializer(name: str, part: str, array: Array) -> ir.Value:
    """An initializer that holds its values."""
    return _value(name, part, ir.Tensor(array, name=name))


def derived(
    source: ir.Value, suffix: str, part: str, dtype: np.dtype[Any], columns: int, read: Callable[[], Array]
) -> ir.Value:
    """An initializer made of `source` row by row: as many rows, `columns` columns, its name with a suffix.

    The first rows of a table thus give the first rows of what is made of the table, and go on sharing its bytes.
    """
    value = lazy_initializer(f"{source.name}.{suffix}", part, (static_shape(source)[0], columns), dtype, read)
    if STORED_AS in source.metadata_props:
        value.metadata_props[STORED_AS] = f"{stored_name(source)}.{suffix}"
    return value


def first_rows(table: ir.Value, part: str, rows: int) -> ir.Value:
    """The first rows of a table, over the table's own bytes."""
    tensor, columns = tensor_of(table), static_shape(table)[1]
    value = lazy_initializer(
        f"{table.name}.first{rows}", part, (rows, columns), tensor.dtype.numpy(), lambda: tensor.numpy()[:rows]
    )
    value.metadata_props[STORED_AS] = stored_name(table)
    return value


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Give an initializer another shape over the same bytes, in place."""
    tensor = tensor_of(value)

    def read() -> ir.Tensor[Any]:
        return ir.Tensor(tensor.numpy().reshape(shape), name=value.name)

    value.const_value = ir.LazyTensor(read, tensor.dtype, ir.Shape(shape), cache=False, name=value.name)
    value.shape = ir.Shape(shape)
    return value


def part_of(value: ir.Value) -> str:
    """The precision part of an initializer."""
    return value.metadata_props[PART]


def stored_name(value: ir.Value) -> str:
    """The name an initializer's bytes are stored under: its own, or that of the table it is the first rows of."""
    return value.metadata_props.get(STORED_AS) or value.name or ""


def _value(name: str, part: str, tensor: ir.TensorProtocol) -> ir.Value:
    value = ir.Value(
        name=name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    value.metadata_props[PART] = part
    return value
