"""The law a request asks for, written as plainly as possible, in float64, on small vocabularies."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime import SamplingParams
from tests.support.table_programs import LogitsOf


def reference_law(
    logits: NDArray[np.floating], params: SamplingParams, prompt: Sequence[int], output: Sequence[int]
) -> NDArray[np.float64]:
    """Law of the next token after `prompt` and `output`: penalties, temperature, top_k, top_p, min_p; ties are kept."""
    values = logits.astype(np.float64).copy()
    for token in range(len(values)):
        count = list(output).count(token)
        if count or token in prompt:
            values[token] *= params.repetition_penalty ** (-1 if values[token] > 0 else 1)
        values[token] -= params.frequency_penalty * count + params.presence_penalty * (count > 0)
    law = np.exp((values - values.max()) / params.temperature)
    law /= law.sum()
    if params.top_k:
        law = _kept(law, law >= np.sort(law)[-min(params.top_k, len(law))])
    if params.top_p < 1:
        ordered = np.sort(law)[::-1]
        law = _kept(law, law >= ordered[np.searchsorted(np.cumsum(ordered), params.top_p)])
    return _kept(law, law >= params.min_p * law.max())


def joint_law(
    logits_of: LogitsOf, params: SamplingParams, prompt: Sequence[int], vocabulary: int, length: int
) -> dict[tuple[int, ...], float]:
    """Probability of every text of `length` tokens after `prompt`; texts that can't occur are left out."""
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        grown = {}
        for output, probability in law.items():
            logits = logits_of(np.array([*prompt, *output]))
            following = reference_law(logits, params, prompt, output)
            grown |= {(*output, token): probability * following[token] for token in range(vocabulary)}
        law = {output: probability for output, probability in grown.items() if probability > 0}
    return law


def chi_square_p(counts: dict[tuple[int, ...], int], law: dict[tuple[int, ...], float]) -> float:
    """p of the observed texts under `law`, cells pooled to at least 5 expected each; 0 if one can't occur."""
    from scipy.stats import chi2

    if counts.keys() - law.keys():
        return 0.0
    total = sum(counts.values())
    pooled: list[list[float]] = [[0.0, 0.0]]
    for output, probability in sorted(law.items(), key=lambda item: item[1]):
        if pooled[-1][1] >= 5:
            pooled.append([0.0, 0.0])
        pooled[-1][0] += counts.get(output, 0)
        pooled[-1][1] += probability * total
    if len(pooled) > 1 and pooled[-1][1] < 5:
        rest = pooled.pop()
        pooled[-1] = [pooled[-1][0] + rest[0], pooled[-1][1] + rest[1]]
    statistic = sum((observed - expected) ** 2 / expected for observed, expected in pooled)
    return float(chi2.sf(statistic, len(pooled) - 1))


def sampled(draw_text: Callable[[int], Sequence[int]], sequences: int) -> dict[tuple[int, ...], int]:
    """How often each text came, `draw_text` called with the seeds 0, 1, ..."""
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(sequences):
        text = tuple(draw_text(seed))
        counts[text] = counts.get(text, 0) + 1
    return counts


def _kept(law: NDArray[np.float64], keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    kept = np.where(keep, law, 0.0)
    return kept / kept.sum()
