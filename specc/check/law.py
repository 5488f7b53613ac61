"""Do sampled tokens follow the verifier's own law?"""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from specc.check.chi_square import chi_square_p, uniform_counts
from specc.check.favourites import favourites
from specc.check.places import Laws, places, ratio, softmax
from specc.check.prompts import prompt_ids
from specc.check.subject import Subject, Way
from specc.progress import Progress, Step
from specc.reports import CheckRow
from specc_runtime import SamplingParams

SEQUENCES = 120
MIN_SEQUENCES, MAX_SECONDS = 40, 60.0  # a slow bundle is judged on fewer, but never on less than these
BINS = 10
MIN_P = 1e-4
LAW = SamplingParams(temperature=1.0, ignore_eos=True, max_new_tokens=1 << 20)

Tokens = NDArray[np.int64]


def check_law(subject: Subject, progress: Progress) -> Iterator[CheckRow]:
    """A row for the longest draft of each drafter, host-driven and fused: chi-square tests against the verifier's law.

    The 2nd to (gamma + 2)th sampled tokens are judged, given their prefix: rounds make them, prefill makes the first.
    Their places in the law are tested twice: likeliest tokens first, which shows a law that is too sharp or too flat,
    and the drafter's favourites first, which shows drafted tokens accepted too often or too seldom.
    """
    prompt = next(iter(prompt_ids(subject.bundle).values()))
    for way in _longest(subject.ways(LAW)):
        with progress.step(f"sampled law, {way}", SEQUENCES) as step:
            texts = _sampled(subject, way, prompt, step)
        found = {
            order: chi_square_p(uniform_counts(np.concatenate(by_text), BINS))
            for order, by_text in _places(subject, way, prompt, texts).items()
        }
        detail = (
            f"chi-square p {', '.join(f'{p:.3g} {order}' for order, p in found.items())} (at least {MIN_P:g}) over "
            f"{sum(len(text) - 1 for text in texts)} tokens of {len(texts)} texts at temperature 1, {way}"
        )
        yield CheckRow("sampled law, fused" if way.fused else "sampled law", min(found.values()) >= MIN_P, detail)


def _longest(ways: tuple[Way, ...]) -> list[Way]:
    """Of each drafter, host-driven and fused, the way that drafts most; loops are compared with rounds elsewhere."""
    longest: dict[tuple[str, bool], Way] = {}
    for way in sorted((way for way in ways if not way.looped), key=lambda way: way.gamma):
        longest[way.drafter, way.fused] = way
    return sorted(longest.values(), key=lambda way: way.fused)


def _sampled(subject: Subject, way: Way, prompt: Tokens, step: Step) -> list[Tokens]:
    """The first gamma + 2 tokens of texts that were not asked to end there: no round is cut short."""
    engine, texts = subject.engine(fused=way.fused), list[Tokens]()
    started = time.monotonic()
    while len(texts) < SEQUENCES:
        if len(texts) >= MIN_SEQUENCES and time.monotonic() - started > MAX_SECONDS:
            break
        params = replace(LAW, seed=len(texts))
        generation = engine.generate(prompt.tolist(), params, drafter=way.drafter, gamma=way.gamma)
        texts.append(np.fromiter(islice(generation, way.gamma + 2), np.int64))
        generation.close()
        step.advance()
    return texts


def _places(subject: Subject, way: Way, prompt: Tokens, texts: list[Tokens]) -> dict[str, list[Laws]]:
    """The places of every text's tokens but the first, by the order of the laws."""
    spread, verify = np.random.default_rng(0), subject.programs.verify
    found: dict[str, list[Laws]] = {}
    verify(prompt, 0, 0)
    favoured = favourites(subject, way.drafter, prompt, longest=max(map(len, texts)))
    for text in texts:
        later, shares = text[1:], spread.random(len(text) - 1)
        laws = softmax(verify(text[:-1], len(prompt), len(later)))
        scores = {"likeliest first": laws}
        if favoured is not None:
            scores["drafter's favourites first"] = ratio(favoured.laws(text[:-1], laws.shape[-1]), laws)
        for order, score in scores.items():
            found.setdefault(order, []).append(places(laws, score, later, shares))
    return found
