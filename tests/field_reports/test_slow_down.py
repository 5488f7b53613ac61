"""Acceptance that falls because a drafter's cache went stale (ggml-org/llama.cpp/issues/10664, 23544)."""

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Programs
from tests.support.tiny_models import TinyBundles

PROMPTS = ([1, 2, 3], [50, 60, 7, 8, 50, 60], [298])
GAMMA, LENGTH = 3, 60


@pytest.mark.parametrize("fused", [False, True])
def test_a_warm_drafter_gets_accepted_what_a_cold_one_would(tiny: TinyBundles, fused: bool) -> None:
    """On fixed prompts, one after the other on one engine: drafts of a drafter that is fed the whole text each time."""
    bundle = tiny.bundle(gammas=(GAMMA,), fuse=True, context=128)
    engine, cold = Engine.load(bundle, fused=fused), load_programs(Engine.load(bundle).bundle)
    total = 0
    for prompt in PROMPTS:
        asked = SamplingParams(max_new_tokens=LENGTH, ignore_eos=True)
        generation = engine.generate(prompt, asked, gamma=GAMMA).finish()
        expected = accepted_by_cold_drafts(cold, prompt, generation.ids)
        assert generation.stats.spec_decode_num_accepted_tokens_per_pos == expected
        total += sum(expected)
    assert total > len(PROMPTS) * LENGTH / 5


def accepted_by_cold_drafts(programs: Programs, prompt: list[int], ids: list[int]) -> list[int]:
    """How often each place of a draft is accepted when greedy rounds write `ids`, drafts made from empty caches."""
    per_place, done = [0] * GAMMA, 1  # prefill gives the first token
    while done < len(ids):
        wanted = min(GAMMA, len(ids) - done - 1)
        drafted = cold_draft(programs, [*prompt, *ids[:done]], wanted)
        accepted = 0
        while accepted < wanted and drafted[accepted] == ids[done + accepted]:
            per_place[accepted] += 1
            accepted += 1
        done += accepted + 1
    return per_place


def cold_draft(programs: Programs, text: list[int], count: int) -> list[int]:
    drafted: list[int] = []
    for _ in range(count):
        programs.reset()
        drafted.append(int(programs.draft("drafter", np.array(text + drafted), 0).argmax()))
    return drafted
