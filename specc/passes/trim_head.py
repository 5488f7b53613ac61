"""Keep only some rows of the output head: padding goes, or a drafter speaks a part of the vocabulary."""

import hashlib
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.initializers import first_rows, lazy_initializer
from specc.core.inspection import inputs_of, static_shape, tensor_of
from specc.passes.head import HEAD, drop_unused, head_of, logits_of


def trim_head(model: ir.Model, ids: NDArray[np.integer[Any]] | int) -> ir.Model:
    """`logits = linear(x, table)` becomes `linear(x, table[ids])`; logits f32[B, R, len(ids)].

    ids: ascending rows to keep, or how many of the first. First rows go on sharing the table's bytes (STORED_AS), any
    others are a table of their own. Must hold: the head is not quantised yet.
    """
    head, logits = head_of(model), logits_of(model)
    table = inputs_of(head)[1]
    rows = static_shape(table)[0]
    kept = np.arange(ids) if isinstance(ids, int) else np.asarray(ids)
    _check(kept, rows)
    if len(kept) == rows:
        return model
    trimmed = first_rows(table, HEAD, len(kept)) if kept[-1] == len(kept) - 1 else _gathered(table, kept)
    model.graph.register_initializer(trimmed)
    head.replace_input_with(1, trimmed)
    if logits.shape is not None:
        logits.shape = ir.Shape([*logits.shape.dims[:-1], len(kept)])
    drop_unused(model.graph)
    return model


def _check(ids: NDArray[np.integer[Any]], rows: int) -> None:
    if ids.ndim != 1 or not len(ids) or ids[0] < 0 or ids[-1] >= rows or (np.diff(ids) <= 0).any():
        asked = np.array2string(ids, threshold=6)
        raise ValueError(f"a head of {rows} rows can't keep {asked}: expected ascending row numbers below {rows}")


def _gathered(table: ir.Value, ids: NDArray[np.integer[Any]]) -> ir.Value:
    tensor, columns = tensor_of(table), static_shape(table)[1]
    digest = hashlib.sha256(np.ascontiguousarray(ids, np.int64).tobytes()).hexdigest()[:12]
    return lazy_initializer(
        f"{table.name}.rows-{digest}", HEAD, (len(ids), columns), tensor.dtype.numpy(), lambda: tensor.numpy()[ids]
    )
