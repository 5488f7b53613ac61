"""What the weights file relies on: whatever passes ran on whichever model, a stored name stands for one content."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import onnx_ir as ir
import pytest

from specc.core.initializers import stored_name
from specc.core.inspection import tensor_of
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.quantize_linears import quantize_linears
from specc.passes.running import run_passes
from specc.passes.store_weights import store_weights
from specc.passes.trim_head import trim_head
from tests.models.support import VOCAB, random_weights, tiny_config

PARTS = ("attention", "mlp", "head")
HEADS = (VOCAB, 40, 25, np.asarray([1, 5, 7]))
DTYPES = ("fp32", "fp16", "bf16", "int8")


def decoder(role: str, layers: int, *, tied: bool) -> ir.Model:
    """The verifier, or a slice of its first layers that borrows its weights."""
    spec = describe(tiny_config("llama", num_hidden_layers=2, tie_word_embeddings=tied), "tiny")
    weights = random_weights(spec)
    return build_decoder(replace(spec, layers=layers), weights, "tiny", role, DecoderShape(16), weights_of="verifier")


def compiled(model: ir.Model, head: int | np.ndarray, dtype: str, embedding: str) -> ir.Model:
    """`model` as a compile makes it: every linear in `dtype`, the embedding in its own."""
    stored = dict.fromkeys(PARTS, dtype) if dtype != "int8" else {}
    return run_passes(
        model,
        [
            partial(trim_head, ids=head),
            partial(store_weights, dtype_of={**stored, "embedding": embedding}),
            partial(quantize_linears, parts=PARTS if dtype == "int8" else ()),
        ],
    )


def contents(model: ir.Model) -> dict[str, list[bytes]]:
    """What each stored name was seen to hold."""
    found: dict[str, list[bytes]] = {}
    for value in model.graph.initializers.values():
        found.setdefault(stored_name(value), []).append(tensor_of(value).tobytes())
    return found


@pytest.mark.parametrize("tied", [False, True])
def test_a_stored_name_stands_for_one_content_or_first_rows_of_it(tied: bool) -> None:
    known: dict[str, bytes] = {}
    verifier, slice_ = decoder("verifier", 2, tied=tied), decoder("drafter", 1, tied=tied)
    for model, head, dtype, embedding in product((verifier, slice_), HEADS, DTYPES, ("fp32", "fp16")):
        for name, seen in contents(compiled(model.clone(), head, dtype, embedding)).items():
            for content in seen:
                longer, shorter = sorted((known.get(name, b""), content), key=len, reverse=True)
                assert longer.startswith(shorter), name
                known[name] = longer


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tied", [False, True])
def test_a_slice_at_the_verifiers_dtype_adds_no_bytes(tied: bool, dtype: str) -> None:
    verifier = contents(compiled(decoder("verifier", 2, tied=tied), VOCAB, dtype, "fp32"))
    slice_ = contents(compiled(decoder("drafter", 1, tied=tied), 25, dtype, "fp32"))
    assert set(slice_) < set(verifier)


def test_a_slice_at_another_dtype_is_a_copy_of_its_linears_only() -> None:
    verifier = contents(compiled(decoder("verifier", 2, tied=False), VOCAB, "fp32", "fp32"))
    slice_ = contents(compiled(decoder("drafter", 1, tied=False), VOCAB, "int8", "fp32"))
    added = set(slice_) - set(verifier)
    assert {name.rsplit(".q8b", 1)[0] for name in added} == {
        "verifier.head",
        *(f"verifier.layers.0.{weight}" for weight in ("qkv", "output", "gate_up", "down")),
    }
    assert "verifier.embedding" in slice_
