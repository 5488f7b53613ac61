"""Prompts longer than one prefill (sgl-project/sglang/issues/5734; lmstudio-bug-tracker/issues/499)."""

from pathlib import Path

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from tests.support.tiny_models import TinyBundles, compiled

CONTEXT = 768


@pytest.mark.parametrize("length", [257, 512, 700, CONTEXT - 1])
def test_a_prompt_in_chunks_equals_one_shot(
    tiny: TinyBundles, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    model = tiny.model(max_position_embeddings=CONTEXT)
    chunked = Engine.load(tiny.bundle(model, gammas=(3,), context=CONTEXT))
    monkeypatch.setattr("specc.pipeline.PREFILL_WIDTH", CONTEXT)
    once: Path = tmp_path_factory.mktemp("one-shot") / "bundle"
    compiled(model, once, gammas=(3,), context=CONTEXT)
    whole = Engine.load(once)
    widths = [max(p.max_width for p in e.manifest.programs) for e in (chunked, whole)]
    assert widths == [256, CONTEXT]
    prompt = np.random.default_rng(length).integers(0, 256, length)
    asked = SamplingParams(max_new_tokens=40, ignore_eos=True, logprobs=0)
    ours, theirs = (engine.generate(prompt, asked, gamma=3).finish() for engine in (chunked, whole))
    assert ours.ids == theirs.ids
    assert len(ours.ids) == min(40, CONTEXT - length)
    values = [[entry.logprob for entry in generation.logprobs or ()] for generation in (ours, theirs)]
    assert values[0] == pytest.approx(values[1], rel=0, abs=1e-4)
    assert ours.stats.verifier_prefilled_tokens == length
