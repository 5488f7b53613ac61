"""Rows written by ScatterND are those TensorScatter writes."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from specc.core.building import Body, model, value
from specc.core.oracle import Oracle
from specc.errors import LegalizeError
from specc.legalize import row_scatter
from specc.legalize.rewriting import legalize

OPS = frozenset([("", op) for op in ("Add", "Constant", "Mul", "ScatterND")])


def written(cache: Sequence[int], rows: Sequence[int], batch: int = 1) -> ir.Model:
    """`present = TensorScatter(past, rows, position)`, rows along the second to last axis."""
    body = Body()
    past, new = value("past", cache, ir.DataType.FLOAT), value("rows", rows, ir.DataType.FLOAT)
    position = value("position", [batch], ir.DataType.INT64)
    present = body.op("TensorScatter", past, new, position, axis=-2)
    present.name, present.shape, present.dtype = "present", ir.Shape(cache), ir.DataType.FLOAT
    return model("cache", [past, new, position], [present], body)


@pytest.mark.parametrize(("cache", "rows"), [((1, 2, 9, 4), (1, 2, 3, 4)), ((1, 9, 4), (1, 1, 4))])
@pytest.mark.parametrize("position", [0, 2, 6])
def test_scatter_nd_writes_the_same_rows(cache: Sequence[int], rows: Sequence[int], position: int) -> None:
    graph = written(cache, rows)
    rng = np.random.default_rng(0)
    fed = {
        "past": rng.standard_normal(cache).astype(np.float32),
        "rows": rng.standard_normal(rows).astype(np.float32),
        "position": np.asarray([position]),
    }
    expected = Oracle(graph).run(fed)["present"]
    lowered = legalize(graph, row_scatter.__name__, OPS)
    assert {node.op_type for node in lowered.graph} == {"Add", "Constant", "Mul", "ScatterND"}
    np.testing.assert_array_equal(Oracle(lowered).run(fed)["present"], expected)


def test_a_batch_is_refused() -> None:
    with pytest.raises(LegalizeError, match=r"one sequence at a time, and the batch is \[2\]"):
        legalize(written((2, 9, 4), (2, 3, 4), batch=2), "any", OPS)
