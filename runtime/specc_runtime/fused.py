"""Rounds inside an engine: draft, verify and accept in one call, or all rounds of a text."""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from specc_runtime.cache import ModelCache
from specc_runtime.drafting.model import ModelDrafter
from specc_runtime.engines.base import Loop, LoopRequest, Programs, RoundSampling, Tokens
from specc_runtime.history import TokenHistory
from specc_runtime.manifest import Program
from specc_runtime.params import SamplingParams
from specc_runtime.rng import RoundUniforms


class _InGraph:
    """What a program that runs rounds needs around it: the caches of its two models, a request's warping.

    gamma: tokens that each round drafts.
    """

    def __init__(self, program: Program, verifier: ModelCache, drafter: ModelDrafter, params: SamplingParams) -> None:
        self.gamma = program.max_width - 1
        self._width = drafter.round_tokens(self.gamma)
        self._verifier = verifier
        self._drafter = drafter
        temperature = 0.0 if params.greedy else params.temperature
        self._sampling = RoundSampling(temperature, params.top_k, params.top_p, params.min_p)

    def serves(self, history: TokenHistory) -> bool:
        """Whether `history` is long enough for the first draft step."""
        return len(history) >= self._width + self._drafter.lag

    def _run(self, history: TokenHistory, call: Callable[[], list[list[int]]]) -> list[list[int]]:
        """The rounds that `call` makes after `history`; what the caches hold before and after is put right."""
        n = len(history)
        self._drafter.refill(history, self._width)
        self._verifier.forget(n - 1)  # should the engine fail half-way, rows from here on hold nothing
        self._drafter.cache.forget(n - self._width - self._drafter.lag)
        started = perf_counter()
        rounds = call()
        self._verifier.effort.step_s += perf_counter() - started
        last = history.ids[-self._width :]
        for tokens in rounds:
            last = self._record(last, tokens, n)
            n += len(tokens)
        return rounds

    def _record(self, last: Tokens, tokens: list[int], n: int) -> Tokens:
        """Note what one round wrote, the `last` of n tokens being committed before it; the last ones after it."""
        accepted = tokens[:-1]
        self._verifier.record([int(last[-1]), *accepted], n - 1)
        self._drafter.record_round(last, accepted[: self.gamma - 1], n)  # the last drafted token was not fed
        after: Tokens = np.append(last, tokens)[-self._width :]
        return after


class FusedRound(_InGraph):
    """A `round` program bound to the caches of its two models and to a request's warping."""

    def __init__(
        self, programs: Programs, program: Program, verifier: ModelCache, drafter: ModelDrafter, params: SamplingParams
    ) -> None:
        super().__init__(program, verifier, drafter, params)
        self._programs = programs
        self._program = program

    def __call__(self, history: TokenHistory, uniforms: RoundUniforms) -> list[int]:
        """The tokens of one round after `history`, which it serves; `uniforms` have the program's gamma."""
        fed = np.concatenate(uniforms).astype(np.float32)  # multiples of 2**-24: exact
        last, position = history.ids[-self._width :], len(history) - self._width

        def call() -> list[list[int]]:
            return [self._programs.round(self._program, last, position, fed, self._sampling).tolist()]

        (tokens,) = self._run(history, call)
        return tokens


class FusedLoop(_InGraph):
    """A `loop` program bound to the caches of its two models, to a request's warping and to its sample's seed.

    stops: ids that end the text.
    """

    def __init__(
        self, loop: Loop, verifier: ModelCache, drafter: ModelDrafter, params: SamplingParams, stops: frozenset[int]
    ) -> None:
        super().__init__(loop.program, verifier, drafter, params)
        self._loop = loop
        self._stops = stops

    def reach(self, history: TokenHistory, room: int) -> int:
        """How many of `room` more tokens it can commit after `history`; 0 if it does not serve it.

        The drafter's context may end before the verifier's.
        """
        drafted = self._drafter.limit(len(history))
        return min(room, drafted + 1) if drafted and self.serves(history) else 0

    def __call__(self, history: TokenHistory, room: int, seed: int, sample: int) -> list[list[int]]:
        """The tokens of all rounds, up to an id that ends the text or to `room` more than `history` has."""
        request = LoopRequest(history.ids, len(history) + room, self._stops, seed, sample, self._sampling)
        return self._run(history, lambda: self._loop(request))
