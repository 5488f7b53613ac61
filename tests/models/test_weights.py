from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from specc.checkpoint.types import Weights
from specc.core.initializers import part_of
from specc.core.inspection import tensor_of
from specc.errors import CheckpointError
from specc.models.weights import WeightLoader
from tests.models.support import ArrayTensor, weights_from

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = -np.arange(3, dtype=np.float32).reshape(1, 3)


def loader(**arrays: NDArray[Any]) -> WeightLoader:
    return WeightLoader(weights_from(arrays), "model.safetensors", "verifier.")


def test_tensors_are_stacked_in_order() -> None:
    value = loader(a=A, b=B).load("qkv", "attention", [("a", (2, 3)), ("b", (1, 3))])
    assert value.name == "verifier.qkv"
    assert part_of(value) == "attention"
    np.testing.assert_array_equal(tensor_of(value).numpy(), np.concatenate([A, B]))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_weights_keep_the_checkpoint_dtype_and_norms_are_widened(dtype: Any) -> None:
    narrow = loader(a=A.astype(dtype), b=B.astype(dtype))
    weight = narrow.load("qkv", "attention", [("a", (2, 3)), ("b", (1, 3))])
    norm = narrow.load("norm", "norm", [("a", (2, 3))])
    assert tensor_of(weight).dtype.numpy() == tensor_of(weight).numpy().dtype == np.dtype(dtype)
    assert tensor_of(norm).dtype.numpy() == tensor_of(norm).numpy().dtype == np.float32
    np.testing.assert_array_equal(tensor_of(norm).numpy(), A)


def test_mixed_dtypes_are_widened_to_fp32() -> None:
    value = loader(a=A.astype(np.float16), b=B).load("qkv", "attention", [("a", (2, 3)), ("b", (1, 3))])
    assert tensor_of(value).numpy().dtype == np.float32


def test_nothing_is_read_before_it_is_asked_for() -> None:
    class Unread(ArrayTensor):
        def numpy(self) -> NDArray[Any]:
            raise AssertionError("read")

    weights = WeightLoader(Weights({"a": Unread("a", A)}), "x", "verifier.")
    value = weights.load("qkv", "attention", [("a", (2, 3))])
    with pytest.raises(AssertionError, match="read"):
        tensor_of(value).numpy()


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (
            lambda w: w.load("q", "attention", [("absent", (2, 3))]),
            r"^model\.safetensors: weight 'absent' is missing; the checkpoint is incomplete$",
        ),
        (
            lambda w: w.load("q", "attention", [("a", (3, 2))]),
            r"^model\.safetensors: weight 'a' has shape \[2, 3\], config\.json implies \[3, 2\]$",
        ),
    ],
)
def test_a_missing_or_misshapen_weight_is_named(load: Callable[[WeightLoader], Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(loader(a=A))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("part", ["attention", "norm"])
def test_a_weight_that_is_not_finite_is_named(value: float, dtype: Any, part: str) -> None:
    """In the last row of several that are looked at together."""
    damaged = np.zeros((3000, 512), dtype)
    damaged[-1, -1] = value
    weight = loader(a=damaged).load("q", part, [("a", (3000, 512))])
    with pytest.raises(CheckpointError, match=r"^model\.safetensors: weight 'a' holds values that are not finite"):
        tensor_of(weight).numpy()
