"""Do sampled tokens follow the verifier's own law?"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from specc.check.chi_square import chi_square_p, uniform_counts
from specc.check.prompts import prompt_ids
from specc.reports import CheckRow
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs

SEQUENCES = 120
BINS = 10
MIN_P = 1e-4


def check_law(bundle: Bundle) -> Iterator[CheckRow]:
    """Chi-square of the 2nd to (gamma + 2)th sampled tokens, given their prefix, against the verifier's law.

    Each token's place in its law, likeliest first and spread evenly over the token's own mass, is uniform if and only
    if tokens are drawn from that law (randomised probability integral transform).
    """
    gamma = max(bundle.manifest.gammas)
    engine, programs = Engine.load(bundle.root), load_programs(bundle)
    prompt = next(iter(prompt_ids(bundle).values()))[: bundle.manifest.context - gamma - 2]
    count = gamma + 2
    spread = np.random.default_rng(0)
    places: list[NDArray[np.float64]] = []
    programs.verify(prompt, 0, 0)
    for seed in range(SEQUENCES):
        params = SamplingParams(max_new_tokens=count, temperature=1.0, seed=seed, ignore_eos=True)
        tokens = np.asarray(list(engine.generate(prompt.tolist(), params, gamma=gamma)), np.int64)
        laws = programs.verify(tokens[:-1], len(prompt), len(tokens) - 1)
        places.append(_places(laws, tokens[1:], spread.random(len(tokens) - 1)))
    drawn = np.concatenate(places)
    p_value = chi_square_p(uniform_counts(drawn, BINS))
    detail = (
        f"chi-square p = {p_value:.3g} (at least {MIN_P:g}) over {len(drawn)} tokens at temperature 1, gamma {gamma}"
    )
    yield CheckRow("sampled law", p_value >= MIN_P, detail)


def _places(logits: NDArray[np.float32], tokens: NDArray[np.int64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each token stands in its law, in [0, 1): mass of the likelier ones, plus a share of its own."""
    law = np.exp((logits - logits.max(axis=-1, keepdims=True)).astype(np.float64))
    law /= law.sum(axis=-1, keepdims=True)
    own = np.take_along_axis(law, tokens[:, None], axis=-1)
    likelier = np.where(law > own, law, 0).sum(axis=-1)
    ties = np.where(law == own, law, 0).sum(axis=-1)
    return np.minimum(likelier + spread * ties, np.nextafter(1, 0))
