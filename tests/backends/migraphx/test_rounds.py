"""Whole rounds in MIGraphX's dialect, run by ONNX Runtime in fp32: plain decoding's tokens, and the host's draws."""

from functools import cache
from itertools import chain

import onnx_ir as ir
import pytest

from specc.backends.migraphx.lint import check_dialect
from specc.backends.migraphx.lowering import lower
from specc.passes.fuse_round import DRAFTER
from specc.passes.quantize_linears import quantize_linears
from specc_runtime.engines.base import RoundSampling
from tests.passes.test_fuse_round import (
    PROMPT,
    SAMPLED,
    TRUNCATED,
    VOCAB,
    Pair,
    caches,
    first_layer,
    pair,
    plain_greedy,
    prefilled,
)
from tests.support.function_models import Run, ort_run
from tests.support.fused_rounds import GREEDY, FusedRounds, HostRounds, generate

KINDS = ("first layer", "stranger with more ids", "stranger with fewer ids", "trimmed head")
EIGHT_BIT = "8-bit drafter"


@cache
def lowered(kind: str, gamma: int, acceptance: str = "block") -> tuple[ir.Model, Run]:
    """A round in the dialect, and ready to run."""
    asked = pair("first layer" if kind == EIGHT_BIT else kind)
    if kind == EIGHT_BIT:
        asked = Pair(
            asked.verifier, quantize_linears(first_layer(), ["attention", "mlp", "head"], row_scales=True)
        )  # fmt: skip
    graph = asked.fused(gamma, acceptance)
    graph.graph.outputs[:] = [v for v in graph.graph.outputs if not str(v.name).startswith(f"{DRAFTER}after_")]
    graph = lower(graph)
    check_dialect(ir.to_proto(graph))
    return graph, ort_run(graph)


def rounds(kind: str, gamma: int, acceptance: str = "block") -> FusedRounds:
    return FusedRounds(*lowered(kind, gamma, acceptance), caches("first layer" if kind == EIGHT_BIT else kind))


@pytest.mark.parametrize(
    ("kind", "gamma"), [*((kind, 3) for kind in (*KINDS, EIGHT_BIT)), ("whole verifier", 2), ("first layer", 1)]
)
def test_greedy_rounds_are_plain_greedy_decoding(kind: str, gamma: int) -> None:
    emitted = generate(rounds(kind, gamma), PROMPT, 60, gamma, GREEDY)
    text = list(chain(*emitted))
    assert text == plain_greedy("first layer" if kind == EIGHT_BIT else kind, 105)[: len(text)]
    if kind == "whole verifier":
        assert {len(ids) for ids in emitted} == {gamma + 1}
    elif kind in ("first layer", EIGHT_BIT):
        assert len(emitted) < 54


@pytest.mark.parametrize(
    ("kind", "acceptance", "sampling"),
    [
        *((kind, "block", TRUNCATED) for kind in KINDS),
        ("first layer", "block", SAMPLED),
        ("first layer", "tokenwise", SAMPLED),
    ],
)
def test_sampled_rounds_are_the_hosts(kind: str, acceptance: str, sampling: RoundSampling) -> None:
    """The same tokens, given the same uniforms, as the runtime's own code around two plain decoders."""
    decoders = (prefilled(kind, role) for role in ("verifier", "drafter"))
    host = HostRounds(*decoders, acceptance, pair(kind).drafted_ids, VOCAB)
    expected = generate(host, PROMPT, 40, 3, sampling)
    assert generate(rounds(kind, 3, acceptance), PROMPT, 40, 3, sampling) == expected
