"""Running one function of the library alone, and the trees to run it on."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.building import Body, model, value
from specc.core.oracle import Oracle

Array = NDArray[Any]
# Parents of every tree of up to five drafted nodes.
TREES = [tuple(parents) for size in range(1, 6) for parents in product(*(range(-1, node) for node in range(size)))]


def ancestors(parents: tuple[int, ...], row: int) -> list[int]:
    """Rows above `row` up to row 0, by following parents one by one."""
    path = []
    while row > 0:
        row = parents[row - 1] + 1
        path.append(row)
    return path


def call_model(function: ir.Function, inputs: Mapping[str, Array], **attributes: Any) -> ir.Model:
    """A graph that is one call of `function`, its outputs named as the function's."""
    body = Body()
    values = [value(name, array.shape, ir.DataType.from_numpy(array.dtype)) for name, array in inputs.items()]
    outputs = body.call(function, *values, **attributes)
    for output, inner in zip(outputs, function.outputs, strict=True):
        output.name = inner.name
    return model("call", values, outputs, body, functions=[function])


def run_function(function: ir.Function, inputs: Mapping[str, Array], **attributes: Any) -> dict[str, Array]:
    """Outputs of `function` by name, computed by the oracle."""
    return Oracle(call_model(function, inputs, **attributes)).run(inputs)


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
