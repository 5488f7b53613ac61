"""The reference preset decodes greedily what transformers decodes from the same checkpoint."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from specc_runtime import Engine, SamplingParams
from tests.support.tiny_models import FAMILIES, TinyBundles

PROMPT = [50, 60, 7, 8, 50, 60]
NEW_TOKENS = 32


@pytest.mark.parametrize("family", FAMILIES)
def test_same_tokens(tiny: TinyBundles, family: str) -> None:
    path = tiny.model(family)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
    asked = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False, "pad_token_id": 0}
    ids = torch.tensor([PROMPT])
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), **asked)[0, len(PROMPT) :].tolist()
    engine = Engine.load(tiny.bundle(path, "slice:2", gammas=(3,)))
    params = SamplingParams(max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS)
    assert engine.generate(PROMPT, params).finish().ids == expected
