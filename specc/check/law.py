"""Do sampled tokens follow the verifier's own law?"""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from specc.check.chi_square import chi_square_p, uniform_counts
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
    """A row for the longest draft of each drafter, host-driven and fused: chi-square against the verifier's law.

    The 2nd to (gamma + 2)th sampled tokens are judged, given their prefix: rounds make them, prefill makes the first.
    Each token's place in its law, likeliest first and spread evenly over the token's own mass, is uniform if and only
    if tokens are drawn from that law (randomised probability integral transform).
    """
    prompt = next(iter(prompt_ids(subject.bundle).values()))
    for way in _longest(subject.ways(LAW)):
        with progress.step(f"sampled law, {way}", SEQUENCES) as step:
            texts = _sampled(subject, way, prompt, step)
        places = _places_of(subject, prompt, texts)
        p_value = chi_square_p(uniform_counts(places, BINS))
        detail = (
            f"chi-square p = {p_value:.3g} (at least {MIN_P:g}) over {len(places)} tokens of {len(texts)} texts at "
            f"temperature 1, {way}"
        )
        yield CheckRow("sampled law, fused" if way.fused else "sampled law", p_value >= MIN_P, detail)


def _longest(ways: tuple[Way, ...]) -> list[Way]:
    """Of each drafter, host-driven and fused, the way that drafts most."""
    longest: dict[tuple[str, bool], Way] = {}
    for way in sorted(ways, key=lambda way: way.gamma):
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


def _places_of(subject: Subject, prompt: Tokens, texts: list[Tokens]) -> NDArray[np.float64]:
    """The place of every token but each text's first."""
    spread = np.random.default_rng(0)
    verify, places = subject.programs.verify, []
    verify(prompt, 0, 0)
    for text in texts:
        later = text[1:]
        laws = verify(text[:-1], len(prompt), len(later))
        places.append(_places(laws, later, spread.random(len(later))))
    return np.concatenate(places)


def _places(logits: NDArray[np.float32], tokens: Tokens, spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each token stands in its law, in [0, 1): mass of the likelier ones, plus a share of its own."""
    law = np.exp((logits - logits.max(axis=-1, keepdims=True)).astype(np.float64))
    law /= law.sum(axis=-1, keepdims=True)
    own = np.take_along_axis(law, tokens[:, None], axis=-1)
    likelier = np.where(law > own, law, 0).sum(axis=-1)
    ties = np.where(law == own, law, 0).sum(axis=-1)
    places: NDArray[np.float64] = np.minimum(likelier + spread * ties, np.nextafter(1, 0))
    return places
