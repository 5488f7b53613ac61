"""Texts sampled through fused rounds in MIGraphX's dialect, by ONNX Runtime in fp32, have the verifier's law."""

from functools import cache

import numpy as np
import pytest

from specc.backends.migraphx.lowering import lower
from specc.passes.fuse_round import fuse_round
from specc.passes.trim_head import trim_head
from specc_runtime.params import SamplingParams
from tests.passes.test_fuse_round_law import (
    BATCH,
    HEAD_IDS,
    LENGTH,
    PROMPT,
    SETTINGS,
    VOCAB,
    markov_decoder,
    sampled_texts,
    table,
)
from tests.support.function_models import Run, ort_run
from tests.support.reference_law import chi_square_p, joint_law

BATCHES = 2


@cache
def rounds(gamma: int, acceptance: str, trimmed: bool) -> Run:
    verifier, drafter = markov_decoder("verifier", table(0), BATCH), markov_decoder("drafter", table(1), BATCH)
    head_ids = HEAD_IDS if trimmed else None
    drafter = trim_head(drafter, HEAD_IDS) if trimmed else drafter
    return ort_run(lower(fuse_round(verifier, drafter, gamma, acceptance=acceptance, head_ids=head_ids)))


@pytest.mark.parametrize(
    ("name", "gamma", "acceptance", "trimmed"),
    [
        *((name, 3, "block", False) for name in ("plain", "top_k", "all")),
        ("plain", 1, "block", False),
        ("plain", 3, "block", True),
        ("top_p", 3, "tokenwise", False),
    ],
)
def test_the_law_of_sampled_texts(name: str, gamma: int, acceptance: str, trimmed: bool) -> None:
    rng, setting = np.random.default_rng(gamma), SETTINGS[name]
    texts = [sampled_texts(rounds(gamma, acceptance, trimmed), gamma, setting, rng) for _ in range(BATCHES)]
    counts = sum(texts[1:], texts[0])
    params = SamplingParams(**setting)  # type: ignore[arg-type]
    law = joint_law(lambda ids: table(0)[ids[-1]], params, PROMPT, VOCAB, LENGTH)
    assert sum(counts.values()) == BATCHES * BATCH
    assert chi_square_p(counts, law) > 1e-3


def test_another_table_is_told_apart() -> None:
    """The same test refuses the drafter's law: its power is real."""
    counts = sampled_texts(rounds(3, "block", trimmed=False), 3, SETTINGS["plain"], np.random.default_rng(0))
    law = joint_law(lambda ids: table(1)[ids[-1]], SamplingParams(**SETTINGS["plain"]), PROMPT, VOCAB, LENGTH)  # type: ignore[arg-type]
    assert chi_square_p(counts, law) < 1e-12
