"""Rounds as they really ran: collected from generations, and of every draft length in turn."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from specc_runtime import Engine, Generation, SamplingParams, Stats
from specc_runtime.drafting.base import UNLIMITED, Draft
from specc_runtime.engines.base import Tokens
from specc_runtime.history import TokenHistory
from specc_runtime.models import NGRAM
from specc_runtime.stats import RoundRecord

GREEDY = SamplingParams()
NEW_TOKENS = 96  # of one timed text
LEAST_SAMPLES = 3  # rounds of a draft length whose median is believed


def rounds_of(generation: Generation, deadline: float = float("inf")) -> Iterator[RoundRecord]:
    """The rounds of `generation` as they end; it is closed at the first that ends after `deadline` (perf_counter)."""
    seen = None
    for _ in generation:
        last = generation.stats.last_round
        if last is not None and last is not seen:
            seen = last
            yield last
        if perf_counter() > deadline:
            generation.close()


def timed_rounds(
    engine: Engine,
    drafter: str,
    prompts: Sequence[Tokens],
    longest: int,
    seconds: float,
    sampling: SamplingParams = GREEDY,
) -> list[RoundRecord]:
    """Rounds that draft 0, 1, ... `longest` tokens in turn, of texts after `prompts`, for about `seconds`.

    drafter: one of the bundle's. Lookup drafts the last token again and again: what it drafts says nothing of its cost.
    sampling: of its options those that shape the law count.
    """
    params = replace(sampling, max_new_tokens=NEW_TOKENS, min_new_tokens=0, ignore_eos=True)
    drafts = _LastToken() if drafter == NGRAM else drafter
    records: list[RoundRecord] = []
    deadline = perf_counter() + seconds
    for prompt in prompts:
        generation = engine.generate(prompt, params, drafter=drafts, gamma=_InTurn(longest))
        records += rounds_of(generation, deadline)
        if perf_counter() > deadline:
            break
    return records


def round_seconds(records: Sequence[RoundRecord], longest: int) -> tuple[float, ...] | None:
    """Median seconds of rounds that drafted 0, 1, ... `longest` tokens, prefill apart; None without any plain step.

    Lengths with too few rounds are interpolated between their neighbours, beyond the last as the last two rise.
    """
    timed = [r for r in records if r.verify_s and not r.prefilled]
    by_length = {g: [r.round_s for r in timed if r.drafted == g] for g in range(longest + 1)}
    known = {g: median(times) for g, times in by_length.items() if len(times) >= min(LEAST_SAMPLES, longest)}
    if 0 not in known:
        return None
    lengths, seconds = np.array(list(known)), np.array(list(known.values()))
    if len(known) > 1 and lengths[-1] < longest:
        rise = (seconds[-1] - seconds[-2]) / (lengths[-1] - lengths[-2])
        lengths, seconds = np.append(lengths, longest), np.append(seconds, seconds[-1] + rise * (longest - lengths[-1]))
    return tuple(float(s) for s in np.interp(range(longest + 1), lengths, seconds))


class _InTurn:
    """A controller: 0, 1, ... longest, and again."""

    def __init__(self, longest: int) -> None:
        self._lengths = longest + 1
        self._chosen = -1

    def choose(self, stats: Stats) -> int:
        self._chosen += 1
        return self._chosen % self._lengths


class _LastToken:
    """A drafter that always has a draft: the last token, again and again."""

    def limit(self, committed: int) -> int:
        return UNLIMITED

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        return Draft(np.repeat(history.ids[-1:], gamma))
