from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from specc.core.initializers import PART, STORED_AS, stored_name
from specc.passes.invariants import broken_invariants
from specc.passes.quantize_linears import quantize_linears
from specc.passes.trim_head import trim_head
from tests.models.support import VOCAB, oracle_runner, random_decoder, token_ids
from tests.passes.support import initializer_arrays

SUBSET = np.asarray([0, 3, 4, 17, 60], np.int32)


def head_name(model: ir.Model) -> str:
    (call,) = (node for node in model.graph if node.op_type == "linear")
    return str(call.inputs[1].name)  # type: ignore[union-attr]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("ids", [1, 20, SUBSET, np.arange(7)])
def test_the_logits_of_the_kept_rows(tied: bool, ids: Any) -> None:
    model = random_decoder(tie_word_embeddings=tied)
    trimmed = trim_head(model.clone(), ids)
    kept = np.arange(ids) if isinstance(ids, int) else ids
    fed = token_ids(5)
    found = oracle_runner(trimmed).feed(fed)
    np.testing.assert_allclose(found, oracle_runner(model).feed(fed)[:, kept], rtol=0, atol=1e-5)
    logits = trimmed.graph.outputs[0]
    assert [logits.name, *list(logits.shape or ())[2:]] == ["logits", len(kept)]
    assert list(broken_invariants(trimmed)) == []


@pytest.mark.parametrize("ids", [VOCAB, np.arange(VOCAB)])
def test_keeping_every_row_changes_nothing(ids: Any) -> None:
    model = random_decoder()
    assert ir.to_proto(trim_head(model.clone(), ids)) == ir.to_proto(model)


@pytest.mark.parametrize("ids", [9, np.arange(9)])
@pytest.mark.parametrize(("tied", "table"), [(False, "verifier.head"), (True, "verifier.embedding")])
def test_first_rows_share_the_bytes_of_the_table(ids: Any, tied: bool, table: str) -> None:
    model = random_decoder(tie_word_embeddings=tied)
    whole = initializer_arrays(model)[table]
    trimmed = trim_head(model, ids)
    value = trimmed.graph.initializers[f"{table}.first9"]
    assert head_name(trimmed) == value.name
    assert stored_name(value) == table
    assert value.metadata_props[PART] == "head"
    np.testing.assert_array_equal(initializer_arrays(trimmed)[str(value.name)], whole[:9])
    assert (table in trimmed.graph.initializers) == tied


def test_a_subset_is_a_table_of_its_own_with_a_name_of_its_own() -> None:
    names = set()
    for ids in (SUBSET, SUBSET[1:], SUBSET + 0):
        trimmed = trim_head(random_decoder(), ids)
        value = trimmed.graph.initializers[head_name(trimmed)]
        assert STORED_AS not in value.metadata_props
        assert "verifier.head" not in trimmed.graph.initializers
        names.add(value.name)
    assert len(names) == 2


@pytest.mark.parametrize("ids", [0, -1, VOCAB + 1, [], [3, 3], [4, 2], [-1, 2], [2, VOCAB], [[1, 2]]])
def test_rows_that_are_not_there_are_refused(ids: Any) -> None:
    with pytest.raises(ValueError, match=f"a head of {VOCAB} rows can't keep .*expected ascending row numbers"):
        trim_head(random_decoder(), ids if isinstance(ids, int) else np.asarray(ids, np.int64))


def test_a_quantised_head_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the logits of 'verifier' come from specc\.linear_q8"):
        trim_head(quantize_linears(random_decoder(), ["head"]), 5)
