"""Reading what passes left."""

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.inspection import tensor_of


def initializer_arrays(model: ir.Model) -> dict[str, NDArray[Any]]:
    """Every initializer's values, read now."""
    return {name: tensor_of(value).numpy() for name, value in model.graph.initializers.items()}


def dtypes(model: ir.Model) -> dict[str, str]:
    """Every initializer's dtype by name; declared and read must agree."""
    found = {}
    for name, value in model.graph.initializers.items():
        tensor = tensor_of(value)
        assert value.dtype == tensor.dtype
        assert tensor.numpy().dtype == tensor.dtype.numpy()
        assert list(tensor.numpy().shape) == list(tensor.shape.numpy()) == list(value.shape or ())
        found[name] = str(tensor.dtype)
    return found


def calls(model: ir.Model) -> Iterator[str]:
    """Names of all ops and functions called, in the graph and in functions."""
    for scope in (model.graph, *model.functions.values()):
        yield from (node.op_type for node in scope)
