"""Row independence on ONNX Runtime's CPU, one thread: a token's logits and cache rows are the same bits in any call.

It is what makes speculative greedy decoding equal plain decoding token for token. It holds for one kind of CPU and one
build at a time, so `specc check` repeats it on the bundle at hand; here it guards the form that the rules choose.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from specc.models.decoder import DecoderShape
from specc.passes.quantize_linears import quantize_linears
from tests.models.support import Runner, ort_runner, random_decoder, token_ids

WIDTHS = (1, 2, 3, 4, 5, 6, 8)
VOCAB, CACHE_ROWS = 320, 192
PREFIXES = (9, 150)  # within and beyond one tile of the attention kernel
SIZES = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": VOCAB, "max_position_embeddings": CACHE_ROWS}
MODELS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen3": ("qwen3", {"head_dim": 32}),
    "rotated outside the op": ("llama", {"head_dim": 24}),
    "blocks of 32": ("llama", {"hidden_size": 96, "intermediate_size": 160, "head_dim": 32}),
    "blocks of 16": ("llama", {"hidden_size": 80, "intermediate_size": 112, "head_dim": 16, "num_key_value_heads": 1}),
}
CASES = [
    pytest.param(family, parts, fields, id=f"{name}-{'q8' if parts else 'fp32'}")
    for name, (family, fields) in MODELS.items()
    for parts in ((), ("attention", "mlp", "head"))
]


def runner_after_prefix(family: str, parts: tuple[str, ...], fields: dict[str, Any], prefix: int) -> Runner:
    model = random_decoder(family, DecoderShape(CACHE_ROWS), **{**SIZES, **fields})
    runner = ort_runner(quantize_linears(model, parts))
    runner.feed(token_ids(prefix, seed=1, vocab=VOCAB))
    return runner


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(("family", "parts", "fields"), CASES)
def test_a_row_is_the_same_bits_in_a_call_of_any_width(
    family: str, parts: tuple[str, ...], fields: dict[str, Any], prefix: int
) -> None:
    runner = runner_after_prefix(family, parts, fields, prefix)
    start = dict(runner.state)
    ids = token_ids(24, seed=2, vocab=VOCAB)
    readings = {}
    for width in WIDTHS:
        runner.state, runner.position = dict(start), prefix
        count = len(ids) // width * width
        logits = runner.feed_in((width,) * (count // width), ids[:count])
        caches = {name: cache[:, :, : prefix + count] for name, cache in runner.state.items()}
        readings[width] = logits, caches
    for width, (logits, caches) in readings.items():
        np.testing.assert_array_equal(logits, readings[1][0][: len(logits)], err_msg=f"logits at width {width}")
        for name, cache in caches.items():
            known = readings[1][1][name][:, :, : cache.shape[2]]
            np.testing.assert_array_equal(cache, known, err_msg=f"{name} at width {width}")


@pytest.mark.parametrize(("family", "parts", "fields"), CASES)
def test_a_later_token_changes_no_earlier_row(family: str, parts: tuple[str, ...], fields: dict[str, Any]) -> None:
    runner = runner_after_prefix(family, parts, fields, PREFIXES[0])
    start = dict(runner.state)
    ids = token_ids(6, seed=3, vocab=VOCAB)
    first = runner.feed(ids)
    for changed in range(1, 6):
        other = ids.copy()
        other[changed:] = (ids[changed:] + 7) % VOCAB
        runner.state, runner.position = dict(start), PREFIXES[0]
        second = runner.feed(other)
        np.testing.assert_array_equal(second[:changed], first[:changed])
        assert (second[changed] != first[changed]).any()
