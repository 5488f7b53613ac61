"""Fused rounds against plain decoding, against a host that calls the decoders one by one, and against the oracle."""

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from specc.core.oracle import Oracle
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.bake_topology import bake_topology
from specc.passes.fuse_round import between_steps, fuse_round
from specc.passes.head import logits_of
from specc.passes.invariants import broken_invariants
from specc.passes.quantize_linears import quantize_linears
from specc.passes.trim_head import trim_head
from specc_runtime.engines.base import RoundSampling
from tests.models.support import OrtEvaluator, Runner, random_weights, tiny_config
from tests.support.function_models import Run, ort_run
from tests.support.fused_rounds import GREEDY, FusedRounds, HostRounds, generate, round_inputs

CACHE_ROWS = 160
VOCAB = 64
HEAD_IDS = np.arange(3, VOCAB, 2)
PROMPT = [5, 1, 33, 60, 2]
SAMPLED = RoundSampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
TRUNCATED = RoundSampling(temperature=0.7, top_k=30, top_p=0.9, min_p=0.02)


@dataclass(frozen=True)
class Pair:
    verifier: ir.Model
    drafter: ir.Model
    head_ids: NDArray[np.int64] | None = None

    @property
    def drafted_ids(self) -> NDArray[np.int64] | None:
        """Full ids of the drafter's logits, None if it has one for each of the verifier's."""
        rows = logits_of(self.drafter).shape[-1]
        return np.arange(rows) if self.head_ids is None and rows < VOCAB else self.head_ids

    def fused(self, gamma: int, acceptance: str = "block") -> ir.Model:
        return fuse_round(self.verifier, self.drafter, gamma, acceptance=acceptance, head_ids=self.head_ids)


def decoder(
    role: str, seed: int = 0, weights_of: str | None = None, state: ir.DataType = ir.DataType.FLOAT, **fields: Any
) -> ir.Model:
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": CACHE_ROWS} | fields
    spec = describe(tiny_config("llama", **sizes), "tiny")
    shape = DecoderShape(CACHE_ROWS, state=state)
    return build_decoder(spec, random_weights(spec, seed), "tiny", role, shape, weights_of)


def first_layer(**fields: Any) -> ir.Model:
    """The verifier's own first layer, sharing its weights: right about one draft in three."""
    return decoder("drafter", weights_of="verifier", num_hidden_layers=1, **fields)


@cache
def pair(kind: str) -> Pair:
    verifier = decoder("verifier")
    parts = ["attention", "mlp", "head"]
    pairs = {
        "first layer": lambda: Pair(verifier, first_layer()),
        "whole verifier": lambda: Pair(verifier, decoder("drafter", weights_of="verifier")),
        "stranger with more ids": lambda: Pair(verifier, decoder("drafter", seed=1, vocab_size=VOCAB + 9)),
        "stranger with fewer ids": lambda: Pair(verifier, trim_head(decoder("drafter", seed=2), VOCAB - 9)),
        "trimmed head": lambda: Pair(verifier, trim_head(first_layer(), HEAD_IDS), HEAD_IDS),
        "8-bit drafter": lambda: Pair(verifier, quantize_linears(first_layer(), parts)),
        "16-bit caches": lambda: Pair(
            decoder("verifier", state=ir.DataType.FLOAT16), first_layer(state=ir.DataType.FLOAT16)
        ),
    }
    return pairs[kind]()


KINDS = (
    "first layer",
    "whole verifier",
    "stranger with more ids",
    "stranger with fewer ids",
    "trimmed head",
    "8-bit drafter",
    "16-bit caches",
)


@cache
def plain(kind: str, role: str) -> tuple[ir.Model, OrtEvaluator]:
    """One decoder of a pair, to be called alone."""
    graph = legalize(bake_topology(getattr(pair(kind), role).clone(), None), "ort", OPS)
    return graph, OrtEvaluator(graph)


def prefilled(kind: str, role: str) -> Runner:
    """A decoder that has seen the prompt but for its last token."""
    decoding = Runner(*plain(kind, role))
    decoding.feed(np.array(PROMPT[:-1]))
    return decoding


@cache
def fused(kind: str, gamma: int, acceptance: str = "block") -> tuple[ir.Model, ir.Model, Run]:
    """A round as core graph, lowered, and ready to run."""
    graph = pair(kind).fused(gamma, acceptance)
    lowered = legalize(graph.clone(), "ort", OPS)
    return graph, lowered, ort_run(lowered)


def caches(kind: str) -> dict[str, NDArray[Any]]:
    """The round's caches after the prompt but for its last token."""
    return {
        f"{role}.{name}": array
        for role in ("verifier", "drafter")
        for name, array in prefilled(kind, role).state.items()
    }


def fused_rounds(kind: str, gamma: int, acceptance: str = "block") -> FusedRounds:
    graph, _, run = fused(kind, gamma, acceptance)
    return FusedRounds(graph, run, caches(kind))


@cache
def plain_greedy(kind: str, length: int) -> list[int]:
    decoding, text = prefilled(kind, "verifier"), list(PROMPT)
    while len(text) < len(PROMPT) + length:
        text.append(int(decoding.feed(np.array(text[-1:]))[0].argmax()))
    return text[len(PROMPT) :]


@pytest.mark.parametrize(
    ("kind", "gamma"), [*((KINDS[0], gamma) for gamma in (1, 2, 4)), *((kind, 3) for kind in KINDS)]
)
def test_greedy_rounds_are_plain_greedy_decoding(kind: str, gamma: int) -> None:
    emitted = generate(fused_rounds(kind, gamma), PROMPT, 100, gamma, GREEDY)
    text = list(chain(*emitted))
    assert text == plain_greedy(kind, 105)[: len(text)]
    if kind == "whole verifier":
        assert {len(ids) for ids in emitted} == {gamma + 1}
    elif kind == "first layer":
        assert len(emitted) < 90


@pytest.mark.parametrize("sampling", [SAMPLED, TRUNCATED], ids=["sampled", "truncated"])
@pytest.mark.parametrize(("kind", "acceptance"), [*((kind, "block") for kind in KINDS), (KINDS[0], "tokenwise")])
def test_sampled_rounds_are_the_hosts(kind: str, acceptance: str, sampling: RoundSampling) -> None:
    """The same tokens, given the same uniforms, as the runtime's own code around two plain decoders."""
    decoders = (prefilled(kind, role) for role in ("verifier", "drafter"))
    host = HostRounds(*decoders, acceptance, pair(kind).drafted_ids, VOCAB)
    expected = generate(host, PROMPT, 60, 3, sampling)
    assert generate(fused_rounds(kind, 3, acceptance), PROMPT, 60, 3, sampling) == expected
    assert len({len(ids) for ids in expected}) > 1 or kind == "whole verifier"


@pytest.mark.parametrize("sampling", [GREEDY, TRUNCATED], ids=["greedy", "truncated"])
@pytest.mark.parametrize("kind", ["first layer", "trimmed head"])
def test_the_oracle_emits_the_same(kind: str, sampling: RoundSampling) -> None:
    graph, _, run = fused(kind, 3)
    by_oracle = generate(FusedRounds(graph, Oracle(graph).run, caches(kind)), PROMPT, 8, 3, sampling)
    assert by_oracle == generate(FusedRounds(graph, run, caches(kind)), PROMPT, 8, 3, sampling)


class InPlaceRounds:
    """A fused graph on ONNX Runtime, each cache one piece of memory for its input and all its outputs."""

    def __init__(self, graph: ir.Model, gamma: int, state: dict[str, NDArray[Any]]) -> None:
        self._session = ort.InferenceSession(ir.to_proto(graph).SerializeToString(), providers=["CPUExecutionProvider"])
        self.memory = {name: array.copy() for name, array in state.items()}
        self._bound = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in self.memory.items()}
        self._gamma = gamma

    def __call__(self, tokens: list[int], position: int, uniforms: NDArray[Any], sampling: RoundSampling) -> list[int]:
        binding = self._session.io_binding()
        for name, array in round_inputs(tokens, position, uniforms, sampling).items():
            binding.bind_cpu_input(name, array)
        for name, cache_ in self._bound.items():
            owner, _, layer = name.split(".", 2)
            between = between_steps(layer, self._gamma) if owner == "drafter" else ()
            binding.bind_ortvalue_input(name, cache_)
            for output in (name.replace(".past.", ".present."), *between):
                binding.bind_ortvalue_output(output, cache_)
        ids, count = np.zeros((1, self._gamma + 1), np.int64), np.zeros(1, np.int64)
        for name, array in (("ids", ids), ("count", count)):
            binding.bind_ortvalue_output(name, ort.OrtValue.ortvalue_from_numpy(array))
        self._session.run_with_iobinding(binding)
        return ids[0, : int(count[0])].tolist()


@pytest.mark.parametrize("gamma", [1, 4])
def test_caches_may_be_updated_in_place(gamma: int) -> None:
    """One buffer a cache, the drafter's shared by every step: the same tokens as with caches copied."""
    in_place = InPlaceRounds(fused("first layer", gamma)[1], gamma, caches("first layer"))
    emitted = generate(in_place, PROMPT, 60, gamma, SAMPLED)
    assert emitted == generate(fused_rounds("first layer", gamma), PROMPT, 60, gamma, SAMPLED)
    assert all(array[:, :, 60].any() for array in in_place.memory.values())


def test_every_output_is_bound_to_a_cache_or_small() -> None:
    graph = pair("first layer").fused(3)
    outputs = {str(v.name) for v in graph.graph.outputs}
    between = {name for part in ("0.key", "0.value") for name in between_steps(part, 3)}
    verifier = {f"verifier.present.{layer}.{part}" for layer in range(2) for part in ("key", "value")}
    drafter = {f"drafter.present.0.{part}" for part in ("key", "value")}
    assert outputs == {"ids", "count"} | between | verifier | drafter
    assert len(between) == 4


def test_the_round_is_a_sound_core_graph_and_leaves_its_models_alone() -> None:
    asked = pair("first layer")
    before = [ir.to_proto(model) for model in (asked.verifier, asked.drafter)]
    graph = asked.fused(2)
    assert list(broken_invariants(graph)) == []
    legalize(graph, "ort", OPS)
    assert [ir.to_proto(model) for model in (asked.verifier, asked.drafter)] == before


def test_shared_weights_appear_once_and_nothing_is_inlined() -> None:
    asked = pair("first layer")
    graph = asked.fused(4)
    assert set(graph.graph.initializers) == set(asked.verifier.graph.initializers)
    called = [node.op_type for node in graph.graph]
    assert (called.count("draft_step"), called.count("verify_step"), called.count("accept_block_4")) == (4, 1, 1)


def test_gamma_0_and_unknown_rules_are_refused() -> None:
    asked = pair("first layer")
    for gamma, acceptance in ((0, "block"), (2, "greedy")):
        with pytest.raises(ValueError, match=rf"gamma {gamma} and acceptance '{acceptance}'; known: block, tokenwise"):
            asked.fused(gamma, acceptance)


@pytest.mark.parametrize("ids", [HEAD_IDS[:-1], HEAD_IDS[::-1], HEAD_IDS + 2, HEAD_IDS - 4])
def test_head_ids_that_do_not_fit_are_refused(ids: NDArray[np.int64]) -> None:
    asked = pair("trimmed head")
    with pytest.raises(ValueError, match=f"head_ids must be {len(HEAD_IDS)} ascending ids below {VOCAB}"):
        fuse_round(asked.verifier, asked.drafter, 2, head_ids=ids)


def test_models_that_clash_by_name_are_refused() -> None:
    verifier = decoder("verifier")
    with pytest.raises(ValueError, match=r"initializers 'verifier\..*' that differ"):
        fuse_round(verifier, decoder("drafter", weights_of="verifier", vocab_size=VOCAB + 1), 2)
    with pytest.raises(ValueError, match="different functions 'verifier_layer'"):
        fuse_round(verifier, decoder("verifier", attention_bias=True), 2)
