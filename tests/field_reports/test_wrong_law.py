"""Draft laws computed in less precision than the ratio that judges them (deepseek-ai/DeepSpec/issues/31)."""

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from tests.support.markov_checkpoints import markov_checkpoint, random_table, table_logits
from tests.support.reference_law import chi_square_p, joint_law
from tests.support.tiny_models import compiled

VOCABULARY, LENGTH, PROMPT = 5, 3, (0, 2, 1)
TABLE = random_table(VOCABULARY, seed=0)
FAR_FROM_ZERO = np.exp(160)  # shifts every logit to where bf16 has steps of 1, which changes no law in fp32


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_coarse_drafter_is_judged_by_the_law_it_was_drawn_from(tmp_path: Path, dtype: str, fused: bool) -> None:
    """The drafter is the verifier itself, coarsely rounded: judged by the law it should have had, it would be wrong."""
    model = markov_checkpoint(tmp_path / "model", TABLE * FAR_FROM_ZERO)
    compiled(model, tmp_path / "bundle", str(model), f"reference,draft={dtype}", gammas=(3,), fuse=True)
    engine = Engine.load(tmp_path / "bundle", fused=fused)
    texts: Counter[tuple[int, ...]] = Counter()
    asked = SamplingParams(max_new_tokens=LENGTH + 4, temperature=1.0, n=700, seed=2)
    rejected = 0
    for generation in engine.generate_samples(PROMPT, asked, gamma=3):
        texts[tuple(islice(generation, LENGTH))] += 1
        generation.close()
        rejected += generation.stats.acceptance_rate < 1
    assert (rejected > 100) == (dtype == "bf16")
    logits = table_logits(TABLE)
    law = joint_law(lambda ids: logits[ids[-1]], SamplingParams(temperature=1.0), PROMPT, VOCABULARY, LENGTH)
    assert chi_square_p(texts, law) > 1e-3
