from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from specc.core.functions.linear import UNSIGNED_ZERO
from specc.core.initializers import PART, STORED_AS, part_of, stored_name
from specc.errors import CheckpointError
from specc.passes.invariants import broken_invariants
from specc.passes.quantize_linears import (
    BLOCK_SIZES,
    FLOAT_ROWS,
    SIGNED_4_BITS,
    SIGNED_ROWS,
    UNSIGNED_BLOCKS,
    block_scales,
    encodings,
    quantize_linears,
    quantized,
)
from specc.passes.trim_head import trim_head
from tests.models.support import oracle_runner, random_decoder, token_ids
from tests.passes.support import calls, dtypes, initializer_arrays

PARTS = ("attention", "mlp", "head")


def dequantized(codes: Any, scales: Any, block: int) -> Any:
    return np.repeat(scales, block, axis=1).astype(np.float64) * (codes.astype(np.float64) - 128)


@pytest.mark.parametrize("block", BLOCK_SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_weight_is_at_most_half_a_step_off(block: int, dtype: Any) -> None:
    rng = np.random.default_rng(block)
    weight = (rng.standard_normal((7, 2 * block)) * 10.0 ** rng.integers(-3, 3, (7, 1))).astype(dtype)
    codes, scales = quantized(weight, block, UNSIGNED_BLOCKS)
    assert codes.dtype == np.uint8
    assert scales.dtype == np.float32
    assert (codes.shape, scales.shape) == (weight.shape, (7, 2))
    error = np.abs(dequantized(codes, scales, block) - weight.astype(np.float64))
    assert (error <= np.repeat(scales, block, axis=1) * (0.5 + 1e-5)).all()


def test_the_largest_weight_of_a_block_is_the_last_code_of_its_sign() -> None:
    weight = np.asarray([[-3.0, 1.0] + [0.5] * 14, [2.0, 0.0] + [-1.0] * 14], np.float32)
    codes, _ = quantized(weight, 16, UNSIGNED_BLOCKS)
    assert (codes[0, 0], codes[1, 0], codes[1, 1]) == (1, 255, 128)


@pytest.mark.parametrize("magnitude", [0.0, 1e-45, 1e-39, 1e-37, 1e-36, 1e37, 3e38])
def test_blocks_of_zeros_and_of_extreme_numbers(magnitude: float) -> None:
    weight = np.linspace(-magnitude, magnitude, 16, dtype=np.float32).reshape(1, 16)
    with np.errstate(all="raise", under="ignore"):
        codes, scales = quantized(weight, 16, UNSIGNED_BLOCKS)
    error = np.abs(dequantized(codes, scales, 16) - weight.astype(np.float64))
    assert error.max() <= max(scales.max() * 0.51, 2e-36)
    assert (codes == 128).all() == (scales == 0).all()


def test_signed_codes_are_the_unsigned_ones_without_their_zero_point() -> None:
    weight = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    (unsigned, scales), (signed, same) = (quantized(weight, 32, how) for how in (UNSIGNED_BLOCKS, SIGNED_ROWS))
    assert signed.dtype == np.int8
    np.testing.assert_array_equal(signed, unsigned.astype(np.int16) - UNSIGNED_ZERO)
    np.testing.assert_array_equal(scales, same)


def test_scales_alone_are_the_same_scales() -> None:
    weight = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float16)
    np.testing.assert_array_equal(block_scales(weight, 32), quantized(weight, 32, UNSIGNED_BLOCKS)[1])


@pytest.mark.parametrize("parts", [c for size in range(4) for c in combinations(PARTS, size)])
def test_only_the_parts_asked_for_change(parts: tuple[str, ...]) -> None:
    model = random_decoder(attention_bias=True)
    before = initializer_arrays(model)
    quantised = quantize_linears(model.clone(), parts)
    after = initializer_arrays(quantised)
    linear = {name for name, value in model.graph.initializers.items() if part_of(value) in PARTS}
    gone = {name for name in linear if part_of(model.graph.initializers[name]) in parts}
    assert set(before) - set(after) == gone
    made = {f"{name}.q8b{64 if before[name].shape[1] % 64 == 0 else 32}.{kind}" for name in gone for kind in KINDS}
    assert set(after) - set(before) == made
    for name in set(before) & set(after):
        np.testing.assert_array_equal(after[name], before[name])
    assert ("linear" in calls(quantised)) == (set(parts) != set(PARTS))
    assert ("linear_q8" in calls(quantised)) == bool(parts)
    assert list(broken_invariants(quantised)) == []


KINDS = ("codes", "scale")


def test_the_graph_computes_with_the_dequantised_weights() -> None:
    model = random_decoder()
    quantised = quantize_linears(model.clone(), PARTS)
    arrays = initializer_arrays(quantised)
    twin = model.clone()
    for name, value in twin.graph.initializers.items():
        if part_of(value) in PARTS:
            block = 64 if f"{name}.q8b64.codes" in arrays else 32
            codes, scale = (arrays[f"{name}.q8b{block}.{kind}"] for kind in KINDS)
            value.const_value = ir.tensor(dequantized(codes, scale, block).astype(np.float32))
    ids = token_ids(6)
    found = oracle_runner(quantised).feed(ids)
    assert np.abs(found - oracle_runner(twin).feed(ids)).max() <= 1e-4
    assert np.abs(found - oracle_runner(model).feed(ids)).max() > 1e-3


def test_an_inner_size_no_block_divides_stays() -> None:
    model = random_decoder(hidden_size=56, head_dim=16, intermediate_size=80)
    quantised = dtypes(quantize_linears(model, PARTS))
    assert {name.split(".", 3)[3] for name, dtype in quantised.items() if dtype == "UINT8"} == {
        "output.q8b64.codes",
        "down.q8b16.codes",
    }
    assert {"verifier.head", "verifier.layers.0.qkv", "verifier.layers.1.gate_up"} <= set(quantised)


def test_a_tied_head_is_quantised_for_itself() -> None:
    model = random_decoder(tie_word_embeddings=True)
    before = initializer_arrays(model)
    quantised = quantize_linears(model, ["head"])
    values = quantised.graph.initializers
    np.testing.assert_array_equal(initializer_arrays(quantised)["verifier.embedding"], before["verifier.embedding"])
    assert values["verifier.embedding.q8b64.codes"].metadata_props[PART] == "head"
    assert values["verifier.embedding"].metadata_props[PART] == "embedding"
    assert list(calls(quantised)).count("linear_q8") == 1


@pytest.mark.parametrize("tied", [False, True])
def test_the_codes_of_first_rows_are_the_first_rows_of_the_codes(tied: bool) -> None:
    model = random_decoder(tie_word_embeddings=tied)
    whole = quantize_linears(model.clone(), ["head"])
    trimmed = quantize_linears(trim_head(model.clone(), 20), ["head"])
    shared = [v for v in trimmed.graph.initializers.values() if STORED_AS in v.metadata_props]
    assert len(shared) == 2
    for value in shared:
        full = initializer_arrays(whole)[stored_name(value)]
        np.testing.assert_array_equal(initializer_arrays(trimmed)[str(value.name)], full[:20])


def test_a_second_run_changes_nothing() -> None:
    once = quantize_linears(random_decoder(), PARTS)
    structure, names = ir.to_proto(once), list(once.graph.initializers)
    twice = quantize_linears(once, PARTS)
    assert list(twice.graph.initializers) == names
    assert ir.to_proto(twice) == structure


def test_models_do_not_change_each_other() -> None:
    first, second = random_decoder(), random_decoder()
    quantize_linears(first, PARTS)
    assert "linear_q8" not in calls(second)
    np.testing.assert_array_equal(
        oracle_runner(second).feed(token_ids(3)), oracle_runner(random_decoder()).feed(token_ids(3))
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_named(bad: float) -> None:
    model = random_decoder()
    head = model.graph.initializers["verifier.head"]
    array = initializer_arrays(model)["verifier.head"].copy()
    array[3, 5] = bad
    head.const_value = ir.tensor(array)
    quantised = quantize_linears(model, ["head"])
    for kind in KINDS:
        with pytest.raises(CheckpointError, match=r"^weight 'verifier\.head' holds values that are not finite"):
            quantised.graph.initializers[f"verifier.head.q8b64.{kind}"].const_value.numpy()  # type: ignore[union-attr]


def test_a_scale_a_row_where_the_backend_multiplies_whole_rows() -> None:
    model = random_decoder(hidden_size=72, num_attention_heads=3, num_key_value_heads=1, head_dim=24)
    rows = quantize_linears(model.clone(), PARTS, row_scales=True)
    scales = {n: v.shape for n, v in rows.graph.initializers.items() if n.endswith(".scale")}
    assert scales["verifier.layers.0.qkv.q8b72.scale"] == ir.Shape([120, 1])
    assert all(shape is not None and shape[1] == 1 for shape in scales.values())
    assert {v.dtype for n, v in rows.graph.initializers.items() if n.endswith(".codes")} == {ir.DataType.INT8}
    ids = token_ids(5)
    found, expected = oracle_runner(rows).feed(ids), oracle_runner(model).feed(ids)
    assert 0 < np.abs(found - expected).max() <= 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(("encoding", "worst"), [(FLOAT_ROWS, 2**-4), (SIGNED_4_BITS, 0.5 / 7)])
def test_fewer_bits_are_as_near_as_their_codes_allow(encoding: Any, worst: float) -> None:
    """Off by a share of the block's largest magnitude: fp8 has three bits behind the first, int4 fifteen values."""
    weight = np.random.default_rng(0).standard_normal((7, 64)).astype(np.float32)
    block = 64 if encoding is FLOAT_ROWS else 32
    codes, scales = quantized(weight, block, encoding)
    assert codes.dtype == encoding.dtype
    found = np.repeat(scales, block, axis=1) * codes.astype(np.float32)
    largest = np.repeat(np.abs(weight.reshape(7, -1, block)).max(-1), block, axis=1)
    assert (np.abs(found - weight) <= worst * largest * 1.001).all()
    assert np.abs(found).max() == pytest.approx(np.abs(weight).max(), rel=1e-6)


@pytest.mark.parametrize("dtype", ["fp8", "int4"])
def test_the_graph_computes_with_what_the_codes_stand_for(dtype: str) -> None:
    model = random_decoder()
    coded = quantize_linears(model.clone(), ["mlp"], dtype=dtype)
    arrays, twin, encoding = initializer_arrays(coded), model.clone(), encodings(row_scales=False)[dtype]
    for name, value in twin.graph.initializers.items():
        if part_of(value) == "mlp":
            codes, scale = (next(a for n, a in arrays.items() if n.startswith(name) and n.endswith(k)) for k in KINDS)
            wide = np.repeat(scale, codes.shape[1] // scale.shape[1], axis=1) * codes.astype(np.float32)
            value.const_value = ir.tensor(wide.astype(np.float32))
    ids = token_ids(6)
    assert encoding.name in next(n for n in arrays if n.endswith("codes"))
    found = oracle_runner(coded).feed(ids)
    assert np.abs(found - oracle_runner(twin).feed(ids)).max() <= 1e-4
    assert np.abs(found - oracle_runner(model).feed(ids)).max() > 1e-3
