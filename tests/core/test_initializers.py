from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc.core.initializers import (
    STORED_AS,
    derived,
    first_rows,
    initializer,
    lazy_initializer,
    part_of,
    reshape,
    stored_name,
)
from specc.core.inspection import static_shape, tensor_of

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


class Counted:
    """Values that count how often they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> NDArray[Any]:
        self.reads += 1
        return TABLE


def test_a_lazy_initializer_reads_each_time_and_keeps_nothing() -> None:
    counted = Counted()
    value = lazy_initializer("table", "head", (4, 3), np.dtype(np.float32), counted)
    assert (value.name, part_of(value), static_shape(value), counted.reads) == ("table", "head", (4, 3), 0)
    for reads in (1, 2):
        np.testing.assert_array_equal(tensor_of(value).numpy(), TABLE)
        assert counted.reads == reads


def test_the_first_rows_share_the_bytes_of_their_table() -> None:
    table = initializer("table", "embedding", TABLE)
    rows = first_rows(table, "head", 2)
    assert (rows.name, part_of(rows), static_shape(rows)) == ("table.first2", "head", (2, 3))
    assert stored_name(rows) == rows.metadata_props[STORED_AS] == "table"
    assert stored_name(table) == "table"
    assert tensor_of(rows).tobytes() == tensor_of(table).tobytes()[: tensor_of(rows).nbytes]
    fewer = first_rows(rows, "head", 1)
    assert stored_name(fewer) == "table"


def test_what_is_made_of_first_rows_shares_the_bytes_of_what_is_made_of_the_table() -> None:
    table = initializer("table", "embedding", TABLE)
    rows = first_rows(table, "head", 2)

    def halved(value: Any) -> Any:
        return derived(
            value, "fp16", part_of(value), np.dtype(np.float16), 3,
            lambda: tensor_of(value).numpy().astype(np.float16),
        )  # fmt: skip

    whole, part = halved(table), halved(rows)
    assert (whole.name, part.name) == ("table.fp16", "table.first2.fp16")
    assert stored_name(part) == stored_name(whole) == "table.fp16"
    assert tensor_of(part).tobytes() == tensor_of(whole).tobytes()[: tensor_of(part).nbytes]


def test_reshape_is_in_place_over_the_same_bytes() -> None:
    counted = Counted()
    value = lazy_initializer("table", "head", (4, 3), np.dtype(np.float32), counted)
    assert reshape(reshape(value, (2, 2, 3)), (6, 2)) is value
    assert static_shape(value) == (6, 2)
    assert counted.reads == 0
    np.testing.assert_array_equal(tensor_of(value).numpy(), TABLE.reshape(6, 2))


def test_only_initializers_can_be_reshaped() -> None:
    value = initializer("table", "head", TABLE)
    value.const_value = None
    with pytest.raises(ValueError, match="'table' is no initializer"):
        reshape(value, (12,))
