"""Stop strings that cut the text but not the cache (huggingface/transformers/issues/48039)."""

import pytest

from specc_runtime import Engine, SamplingParams
from tests.support.tiny_models import TOKENS, TinyBundles

LETTERS = (*range(26), *range(256, TOKENS - 1))
PROMPT = [1, 2, 3]
NEXT = [4, 5, 6, 7]


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_the_next_turn_goes_on_from_where_the_text_was_cut(tiny: TinyBundles, gamma: int, length: int) -> None:
    """Rounds wrote cache rows behind the cut; the next turn must neither use them nor feed again what stands."""
    bundle = tiny.bundle(gammas=(1, 3, 6), context=128)
    engine, fresh = Engine.load(bundle), Engine.load(bundle)
    plainly = SamplingParams(max_new_tokens=40, ignore_eos=True, allowed_token_ids=LETTERS)
    whole = fresh.generate(PROMPT, plainly, plain=True).finish().text
    for start in range(3, 30, 5):
        stopping = SamplingParams(
            max_new_tokens=40, ignore_eos=True, allowed_token_ids=LETTERS, stop_strings=whole[start : start + length]
        )
        first = engine.generate(PROMPT, stopping, gamma=gamma).finish()
        text = [*PROMPT, *first.ids, *NEXT]
        second = engine.generate(text, plainly, gamma=gamma).finish()
        assert second.ids == fresh.generate(text, plainly, plain=True).finish().ids
        # The last token of a text was never fed, nor, to the drafter, the last of a draft accepted whole.
        assert second.stats.verifier_prefilled_tokens <= len(NEXT) + 1
        assert second.stats.drafter_prefilled_tokens <= len(NEXT) + 2
