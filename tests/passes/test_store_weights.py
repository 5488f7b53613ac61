from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from specc.core.initializers import PART, STORED_AS, part_of, stored_name
from specc.core.inspection import tensor_of
from specc.errors import OptionError
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.invariants import broken_invariants
from specc.passes.store_weights import DTYPES, store_weights
from specc.passes.trim_head import trim_head
from tests.models.support import oracle_runner, random_decoder, random_weights, tiny_config, token_ids, weights_from
from tests.passes.support import dtypes, initializer_arrays

ALL = ("attention", "mlp", "head", "embedding")
IR_NAMES = {"fp32": "FLOAT", "fp16": "FLOAT16", "bf16": "BFLOAT16"}


def checkpoint_of(dtype: Any, **fields: Any) -> ir.Model:
    """A tiny decoder of a checkpoint stored in `dtype`."""
    spec = describe(tiny_config("llama", **fields), "tiny")
    arrays = {name: tensor.numpy().astype(dtype) for name, tensor in random_weights(spec).items()}
    return build_decoder(spec, weights_from(arrays), "tiny", "verifier", DecoderShape(24))


@pytest.mark.parametrize(("part", "dtype"), list(product(ALL, DTYPES)))
def test_a_part_is_cast_and_nothing_else_changes(part: str, dtype: str) -> None:
    model = random_decoder(attention_bias=True)
    before = initializer_arrays(model)
    parts = {name: part_of(value) for name, value in model.graph.initializers.items()}
    stored = store_weights(model, {part: dtype})
    after = initializer_arrays(stored)
    cast = {name for name in before if parts[name] == part and dtype != "fp32"}
    assert set(after) == (set(before) - cast) | {f"{name}.{dtype}" for name in cast}
    for name, array in before.items():
        if name in cast:
            np.testing.assert_array_equal(after[f"{name}.{dtype}"], array.astype(DTYPES[dtype]))
            assert dtypes(stored)[f"{name}.{dtype}"] == IR_NAMES[dtype]
        else:
            np.testing.assert_array_equal(after[name], array)
    assert list(broken_invariants(stored)) == []


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_norms_biases_and_rope_tables_stay_in_fp32(dtype: str) -> None:
    model = random_decoder("qwen3", attention_bias=True, head_dim=16)
    stored = store_weights(model, dict.fromkeys(ALL, dtype))
    for name, value in stored.graph.initializers.items():
        assert dtypes(stored)[name] == ("FLOAT" if part_of(value) in ("norm", "rope") else IR_NAMES[dtype])


@pytest.mark.parametrize("checkpoint", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("tied", [False, True])
def test_the_graph_computes_with_the_stored_values(checkpoint: Any, tied: bool) -> None:
    model = checkpoint_of(checkpoint, tie_word_embeddings=tied)
    expected = model.clone()
    policy = {"attention": "bf16", "mlp": "fp16", "head": "fp16", "embedding": "fp16"}
    for value in expected.graph.initializers.values():
        if part_of(value) in policy:
            rounded = tensor_of(value).numpy().astype(DTYPES[policy[part_of(value)]]).astype(np.float32)
            value.const_value, value.dtype = ir.tensor(rounded), ir.DataType.FLOAT
    stored = store_weights(model, policy)
    ids = token_ids(6)
    assert np.abs(oracle_runner(stored).feed(ids) - oracle_runner(expected).feed(ids)).max() <= 1e-4


def tied_case(checkpoint: Any, rows: int | None, embedding: str, head: str) -> ir.Model:
    model = checkpoint_of(checkpoint, tie_word_embeddings=True)
    if rows is not None:
        model = trim_head(model, rows)
    return store_weights(model, {"embedding": embedding, "head": head})


@pytest.mark.parametrize("rows", [None, 20])
@pytest.mark.parametrize(
    ("checkpoint", "embedding", "head", "tables"),
    [
        (np.float32, "fp32", "fp32", {"FLOAT"}),
        (np.float32, "fp16", "fp16", {"FLOAT16"}),
        (np.float32, "fp16", "fp32", {"FLOAT16", "FLOAT"}),
        (np.float32, "fp32", "bf16", {"FLOAT", "BFLOAT16"}),
        (ml_dtypes.bfloat16, "bf16", "fp32", {"BFLOAT16"}),
        (ml_dtypes.bfloat16, "bf16", "bf16", {"BFLOAT16"}),
        (ml_dtypes.bfloat16, "fp32", "fp32", {"FLOAT"}),
        (ml_dtypes.bfloat16, "bf16", "fp16", {"BFLOAT16", "FLOAT16"}),
        (np.float16, "fp16", "fp32", {"FLOAT16"}),
        (np.float16, "bf16", "fp32", {"BFLOAT16", "FLOAT"}),
    ],
)
def test_a_tied_table_is_stored_once_where_its_bytes_serve_both(
    rows: int | None, checkpoint: Any, embedding: str, head: str, tables: set[str]
) -> None:
    stored = tied_case(checkpoint, rows, embedding, head)
    values = [v for v in stored.graph.initializers.values() if part_of(v) in ("embedding", "head")]
    by_bytes = {stored_name(value): str(tensor_of(value).dtype) for value in values}
    assert set(by_bytes.values()) == tables
    assert len(by_bytes) == len(tables)
    source = tensor_of(checkpoint_of(checkpoint, tie_word_embeddings=True).graph.initializers["verifier.embedding"])
    for value in values:
        asked = DTYPES[embedding if part_of(value) == "embedding" else head]
        wanted = source.numpy().astype(asked).astype(np.float32)[: tensor_of(value).shape[0]]
        np.testing.assert_array_equal(tensor_of(value).numpy().astype(np.float32), wanted)


def test_a_head_apart_from_its_table_is_labelled_as_the_head() -> None:
    stored = tied_case(np.float32, None, "fp16", "fp32")
    labels = {str(v.name): v.metadata_props[PART] for v in stored.graph.initializers.values()}
    assert labels["verifier.embedding.fp16"] == "embedding"
    assert labels["verifier.embedding"] == "head"
    assert STORED_AS not in stored.graph.initializers["verifier.embedding"].metadata_props


def test_a_second_run_changes_nothing() -> None:
    policy = {"attention": "fp16", "head": "bf16", "embedding": "fp16"}
    once = store_weights(random_decoder(), policy)
    names = list(once.graph.initializers)
    assert list(store_weights(once, policy).graph.initializers) == names


@pytest.mark.parametrize("largest", [65504.5, -7e4, 1e30, np.inf, np.nan])
def test_what_fp16_can_not_hold_is_named(largest: float) -> None:
    model = random_decoder()
    value = model.graph.initializers["verifier.head"]
    array = tensor_of(value).numpy().copy()
    array[3, 5] = largest
    value.const_value = ir.tensor(array)
    stored = store_weights(model, {"head": "fp16"})
    with pytest.raises(OptionError, match=r"weight 'verifier\.head' holds .*fp16 ends at 65504; store head as bf16"):
        tensor_of(stored.graph.initializers["verifier.head.fp16"]).numpy()


def test_the_largest_fp16_number_fits() -> None:
    model = random_decoder()
    value = model.graph.initializers["verifier.head"]
    array = tensor_of(value).numpy().copy()
    array[3, 5] = -65504.0
    value.const_value = ir.tensor(array)
    assert initializer_arrays(store_weights(model, {"head": "fp16"}))["verifier.head.fp16"][3, 5] == -65504.0


@pytest.mark.parametrize("policy", [{"norm": "fp16"}, {"rope": "bf16"}, {"mlp": "int8"}])
def test_what_can_not_be_stored_is_refused(policy: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="norm and rope stay fp32"):
        store_weights(random_decoder(), policy)
