"""One round in one engine call: draft, verify and accept all happen inside the program."""

from time import perf_counter

import numpy as np

from specc_runtime.cache import ModelCache
from specc_runtime.drafting.model import ModelDrafter
from specc_runtime.engines.base import Programs, RoundSampling
from specc_runtime.history import TokenHistory
from specc_runtime.manifest import Program
from specc_runtime.params import SamplingParams
from specc_runtime.rng import RoundUniforms


class FusedRound:
    """A `round` program bound to the caches of its two models and to a request's warping."""

    def __init__(
        self, programs: Programs, program: Program, verifier: ModelCache, drafter: ModelDrafter, params: SamplingParams
    ) -> None:
        self._programs = programs
        self._program = program
        self._gamma = program.max_width - 1
        self._verifier = verifier
        self._drafter = drafter
        temperature = 0.0 if params.greedy else params.temperature
        self._sampling = RoundSampling(temperature, params.top_k, params.top_p, params.min_p)

    def serves(self, history: TokenHistory) -> bool:
        """Whether `history` is long enough for the first draft step."""
        return len(history) >= self._drafter.round_tokens(self._gamma) + self._drafter.lag

    def __call__(self, history: TokenHistory, uniforms: RoundUniforms) -> list[int]:
        """The tokens of one round after `history`, which it serves; `uniforms` have the program's gamma."""
        n, width = len(history), self._drafter.round_tokens(self._gamma)
        self._drafter.refill(history, width)
        self._verifier.forget(n - 1)  # should the engine fail half-way, rows from here on hold nothing
        self._drafter.cache.forget(n - width - self._drafter.lag)
        started = perf_counter()
        fed = np.concatenate(uniforms).astype(np.float32)  # multiples of 2**-24: exact
        last = history.ids[-width:]
        tokens: list[int] = self._programs.round(self._program, last, n - width, fed, self._sampling).tolist()
        self._verifier.effort.step_s += perf_counter() - started
        accepted = tokens[:-1]
        self._verifier.record([int(last[-1]), *accepted], n - 1)
        self._drafter.record_round(last, accepted[: self._gamma - 1], n)  # the last drafted token was not fed
        return tokens
