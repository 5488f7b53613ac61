"""Texts sampled through rounds in TensorRT's form, run by ONNX Runtime, have the verifier's law."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from specc.passes.concat_tail import concat_tail
from specc.passes.fuse_round import fuse_round
from specc_runtime.params import SamplingParams
from tests.passes.test_fuse_round_law import (
    BATCH,
    CASES,
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


@cache
def rounds(gamma: int, acceptance: str) -> Run:
    verifier, drafter = markov_decoder("verifier", table(0), BATCH), markov_decoder("drafter", table(1), BATCH)
    fused = fuse_round(verifier, drafter, gamma, acceptance=acceptance)
    return ort_run(legalize(concat_tail(fused), "tensorrt", OPS))


@pytest.mark.parametrize(("name", "gamma", "acceptance"), CASES)
def test_the_law_of_sampled_texts(name: str, gamma: int, acceptance: str) -> None:
    rng, counts = np.random.default_rng(gamma), Counter[tuple[int, ...]]()
    for _ in range(2):
        counts += sampled_texts(rounds(gamma, acceptance), gamma, SETTINGS[name], rng)
    params = SamplingParams(**SETTINGS[name])  # type: ignore[arg-type]
    law = joint_law(lambda ids: table(0)[ids[-1]], params, PROMPT, VOCAB, LENGTH)
    assert sum(counts.values()) == 2 * BATCH
    assert chi_square_p(counts, law) > 1e-3
