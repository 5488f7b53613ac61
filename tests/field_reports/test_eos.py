"""Texts that go on after an EOS, or end at one the verifier never said, inside fused rounds too.

huggingface/transformers/issues/47912; LostRuins/koboldcpp/issues/1276; openvinotoolkit/openvino.genai/pull/1951, 3293.
"""

from pathlib import Path

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.markov_checkpoints import markov_checkpoint
from tests.support.tiny_models import compiled

VOCABULARY, EOS = 8, 7
COUNTING = np.roll(np.eye(VOCABULARY), 1, axis=1)  # 0, 1, 2, ... 7, 0
NEVER_EOS = COUNTING.copy()
NEVER_EOS[6] = np.eye(VOCABULARY)[0]
ALWAYS_EOS = np.tile(np.eye(VOCABULARY)[EOS], (VOCABULARY, 1))


def engine_of(tmp_path: Path, verifier: np.ndarray, drafter: np.ndarray, *, fused: bool) -> Engine:
    tokenizer = tiny_tokenizer_json(VOCABULARY, ["<end>"])
    paths = [
        markov_checkpoint(tmp_path / name, table, tokenizer, eos_id=EOS)
        for name, table in (("verifier", verifier), ("drafter", drafter))
    ]
    compiled(paths[0], tmp_path / "bundle", str(paths[1]), gammas=(4,), fuse=True)
    return Engine.load(tmp_path / "bundle", fused=fused)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("fused", [False, True])
def test_nothing_follows_an_accepted_eos_and_a_rejected_one_ends_nothing(
    tmp_path: Path, fused: bool, temperature: float
) -> None:
    asked = SamplingParams(max_new_tokens=20, temperature=temperature, seed=1)
    counting = engine_of(tmp_path / "accepted", COUNTING, COUNTING, fused=fused)
    for start in range(EOS):  # so that the EOS comes at every place of a block
        generation = counting.generate([start], asked, gamma=4).finish()
        assert generation.ids == list(range(start + 1, EOS + 1))
        assert generation.finish_reason == "eos"
        assert generation.stats.emitted_tokens == EOS - start
    never = engine_of(tmp_path / "rejected", NEVER_EOS, ALWAYS_EOS, fused=fused).generate([0], asked, gamma=4).finish()
    assert never.ids == [(1 + i) % EOS for i in range(20)]
    assert never.finish_reason == "length"
    assert never.stats.spec_decode_num_drafts > never.stats.spec_decode_num_accepted_tokens == 0
