"""Rows of a cache written where the tokens stand, for backends without TensorScatter."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.inspection import inputs_of, static_shape
from specc.errors import LegalizeError
from specc.legalize.rewriting import rewrites


@rewrites("TensorScatter")
def tensor_scatter(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The rows, second to last axis, as one ScatterND."""
    cache, rows, position = inputs_of(node)
    return [scatter_rows(body, cache, rows, position)]


def scatter_rows(body: Body, cache: ir.Value, rows: ir.Value, position: ir.Value) -> ir.Value:
    """`cache` `[1, ..., C, D]` with `rows` `[1, ..., S, D]` from row `position` i64[1] on.

    The index table is a constant plus the position, so that caches of one shape share it.
    """
    if static_shape(position) != (1,):
        raise LegalizeError(
            f"ScatterND form of a cache: one sequence at a time, and the batch is {position.shape}; "
            "add a form with a position a row to specc/legalize/row_scatter.py"
        )
    places = static_shape(rows)[:-1]
    table = np.stack(np.meshgrid(*(np.arange(n) for n in places), indexing="ij"), axis=-1)
    moved = body.op("Mul", position, body.constant([0] * (len(places) - 1) + [1]))
    written = body.op("ScatterND", cache, body.op("Add", body.constant(table), moved), rows)
    written.shape, written.type = cache.shape and cache.shape.copy(), cache.type
    return written
