"""Linear layers computed in the dtype of their weights."""

import numpy as np
import onnx_ir as ir
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.fuse_round import fuse_round
from specc.passes.narrow_linears import narrow_linears
from specc.passes.quantize_linears import quantize_linears
from specc.passes.store_weights import store_weights
from tests.models.support import oracle_runner, random_decoder, random_weights, tiny_config, token_ids
from tests.passes.support import dtypes

PARTS = ("attention", "mlp", "head")
F16, BF16 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16


def logits(model: ir.Model) -> NDArray[np.float32]:
    return oracle_runner(model).feed_in([6, 1, 3], token_ids(10))


def stored(**parts: str) -> ir.Model:
    return store_weights(random_decoder(), parts or dict.fromkeys(PARTS, "fp16"))


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_weights_in_fp32_change_nothing(family: str) -> None:
    model = random_decoder(family)
    np.testing.assert_array_equal(logits(narrow_linears(model.clone())), logits(model))


def test_the_error_is_that_of_16_bit_products() -> None:
    exact, widened = logits(random_decoder()), logits(stored())
    narrow = logits(narrow_linears(stored()))
    assert np.abs(narrow - widened).max() > 0
    assert np.abs(narrow - exact).max() <= 8 * np.abs(widened - exact).max()


def test_products_run_in_16_bits() -> None:
    """Read off the dtypes that the ops of the body give: x and weight are fp16 where they meet."""
    model = narrow_linears(stored(attention="fp16"))
    body = model.functions["specc", "linear", ""]
    product = next(node for node in body if node.op_type == "MatMul")
    x, weight = product.inputs
    assert x is not None
    assert weight is not None
    assert [v and v.name for v in x.producer().inputs] == ["x", "weight"]  # type: ignore[union-attr]
    assert [node.op_type for node in body] == ["CastLike", "CastLike", "Transpose", "MatMul", "CastLike"]


def test_a_wide_head_reads_a_16_bit_table() -> None:
    model = stored(head="bf16")
    wide = narrow_linears(model.clone(), wide_head=True)
    np.testing.assert_array_equal(logits(wide), logits(model))
    head = next(n for n in reversed(list(wide.graph)) if n.op_type == "linear")
    assert head.inputs[1] is not None
    assert head.inputs[1].producer().op_type == "Cast"  # type: ignore[union-attr]


def test_a_head_in_fp32_or_8_bits_is_left_alone() -> None:
    for model in (random_decoder(), quantize_linears(random_decoder(), PARTS)):
        before = [node.op_type for node in model.graph]
        assert [node.op_type for node in narrow_linears(model, wide_head=True).graph] == before


@pytest.mark.parametrize("row_scales", [False, True])
@pytest.mark.parametrize(("dtype", "like"), [(F16, np.float16), (BF16, bfloat16)])
def test_scales_are_rounded(dtype: ir.DataType, like: type[np.generic], row_scales: bool) -> None:
    model = quantize_linears(random_decoder(), PARTS, row_scales=row_scales)
    expected = {
        name: value.const_value.numpy().astype(like)  # type: ignore[union-attr]
        for name, value in model.graph.initializers.items()
        if name.endswith(".scale")
    }
    narrow = narrow_linears(model, scales=dtype)
    suffix = np.dtype(like).name
    found = {n: v for n, v in narrow.graph.initializers.items() if ".scale" in n}
    assert set(found) == {f"{name}.{suffix}" for name in expected}
    for name, value in found.items():
        np.testing.assert_array_equal(
            value.const_value.numpy().astype(np.float32),  # type: ignore[union-attr]
            expected[name.removesuffix(f".{suffix}")].astype(np.float32),
        )
    dtypes(narrow)  # what is declared is what is read


def test_a_block_of_zeros_gets_a_positive_scale() -> None:
    model = quantize_linears(random_decoder(), ["head"])
    scale = next(v for n, v in model.graph.initializers.items() if n.endswith("scale"))
    assert scale.const_value is not None
    scale.const_value = ir.Tensor(np.zeros(scale.const_value.shape.numpy(), np.float32), name=scale.name)
    narrow = narrow_linears(model, scales=F16)
    rounded = next(v for n, v in narrow.graph.initializers.items() if n.endswith("scale.float16"))
    assert rounded.const_value is not None
    np.testing.assert_array_equal(rounded.const_value.numpy(), np.float16(1))


def test_two_narrowed_models_still_fuse() -> None:
    spec = describe(tiny_config("llama"), "tiny")
    drafter = build_decoder(spec, random_weights(spec), "tiny", "drafter", DecoderShape(48))
    quantised = narrow_linears(quantize_linears(drafter, PARTS), scales=F16)
    fused = fuse_round(narrow_linears(stored()), quantised, 1)
    assert {n.op_type for n in fused.graph} >= {"verify_step", "draft_step"}
