"""Rounds of a fused graph, and the same rounds by a host that calls the two decoders one by one."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc_runtime.accept import accept_block, accept_tokenwise, draw
from specc_runtime.engines.base import RoundSampling
from specc_runtime.history import TokenHistory
from specc_runtime.params import SamplingParams
from specc_runtime.warp import Warper
from tests.models.support import Runner
from tests.support.function_models import Run

Array = NDArray[Any]
GREEDY = RoundSampling(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
ACCEPT = {"block": accept_block, "tokenwise": accept_tokenwise}


class Rounds(Protocol):
    """tokens: the last two committed ones; position: cache row of the first of them; the emitted ids."""

    def __call__(self, tokens: list[int], position: int, uniforms: Array, sampling: RoundSampling) -> list[int]: ...


class FusedRounds:
    """A fused graph run by either engine, its `caches` copied from call to call."""

    def __init__(self, graph: ir.Model, run: Run, caches: Mapping[str, Array]) -> None:
        self._run = run
        self._past = [str(v.name) for v in graph.graph.inputs if ".past." in str(v.name)]
        self.caches = {name: caches[name] for name in self._past}

    def __call__(self, tokens: list[int], position: int, uniforms: Array, sampling: RoundSampling) -> list[int]:
        made = self._run(round_inputs(tokens, position, uniforms, sampling) | self.caches)
        self.caches = {name: made[name.replace(".past.", ".present.")] for name in self._past}
        return made["ids"][0, : int(made["count"][0])].tolist()


class HostRounds:
    """The runtime's own warping, draws and acceptance around two plain decoders."""

    def __init__(
        self, verifier: Runner, drafter: Runner, acceptance: str, head_ids: Array | None, vocabulary: int
    ) -> None:
        self._verifier, self._drafter, self._accept = verifier, drafter, ACCEPT[acceptance]
        self._head_ids, self._vocabulary = head_ids, vocabulary

    def __call__(self, tokens: list[int], position: int, uniforms: Array, sampling: RoundSampling) -> list[int]:
        gamma = len(uniforms) // 2
        verify, draft = self._warper(sampling, gamma + 1, None), self._warper(sampling, 1, self._head_ids)
        history = TokenHistory(tokens, self._vocabulary)
        drafted: list[int] = []
        laws: list[Array] = []
        self._drafter.position, self._verifier.position = position, position + 1
        for u in uniforms[:gamma]:
            logits = self._drafter.feed(np.array(drafted[-1:] or tokens))[-1:]
            laws.append(draft.laws(logits, history, drafted)[0].copy())
            drafted.append(draft.token_id(draw(laws[-1], float(u))))
        logits = self._verifier.feed(np.array([tokens[1], *drafted]))
        p = verify.laws(logits, history, drafted)
        q = np.stack(laws) if self._head_ids is None else (self._head_ids, np.stack(laws))
        accepted = self._accept(drafted, p, q, uniforms[gamma:].astype(np.float64))
        return [*drafted[: accepted.count], accepted.token]

    def _warper(self, sampling: RoundSampling, rows: int, ids: Array | None) -> Warper:
        params = SamplingParams(
            temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, min_p=sampling.min_p
        )
        size = self._vocabulary
        return Warper(params, vocab_rows=size, token_count=size, eos_ids=(), max_rows=rows, ids=ids)


def round_inputs(tokens: list[int], position: int, uniforms: Array, sampling: RoundSampling) -> dict[str, Array]:
    """What a round of one sequence is fed besides caches."""
    return {
        "tokens": np.array([tokens]),
        "position": np.array([position]),
        "uniforms": uniforms[None].astype(np.float32),
        "temperature": np.array([sampling.temperature], np.float32),
        "top_k": np.array([sampling.top_k]),
        "top_p": np.array([sampling.top_p], np.float32),
        "min_p": np.array([sampling.min_p], np.float32),
    }


def generate(
    rounds: Rounds, prompt: list[int], length: int, gamma: int, sampling: RoundSampling, seed: int = 0
) -> list[list[int]]:
    """What each round emitted, until `length` tokens have been. The caches hold the prompt but for its last token."""
    rng = np.random.default_rng(seed)
    text, emitted = list(prompt), []
    while len(text) - len(prompt) < length:
        uniforms = rng.integers(0, 2**24, 2 * gamma + 1) * 2.0**-24
        emitted.append(rounds(text[-2:], len(text) - 2, uniforms, sampling))
        text += emitted[-1]
    return emitted
