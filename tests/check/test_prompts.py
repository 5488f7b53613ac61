from pathlib import Path

import numpy as np

from specc.check.prompts import PROMPTS, prompt_ids, token_text
from specc_runtime.bundle import open_bundle
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.tiny_models import TOKENS, TinyBundles


def test_three_kinds_of_text_within_a_third_of_the_context(tiny: TinyBundles) -> None:
    ids = prompt_ids(open_bundle(tiny.bundle()))
    assert set(ids) == set(PROMPTS)
    assert {len(prompt) for prompt in ids.values()} == {48 // 3}


def test_without_tokenizer_ids_of_three_kinds(tiny: TinyBundles) -> None:
    bundle = open_bundle(tiny.bundle(tiny.model(tokenizer=None), "ngram"))
    ids = prompt_ids(bundle)
    assert len(ids) == 3
    assert all(0 <= prompt.min() <= prompt.max() < TOKENS for prompt in ids.values())
    np.testing.assert_array_equal(ids["repeating"][:4], ids["repeating"][4:8])


def test_a_tokenizer_that_lacks_the_letters(tiny: TinyBundles) -> None:
    """Ids below its count all the same, never those of pads."""
    model = tiny.model(vocab_size=16, tokenizer=tiny_tokenizer_json(2))
    ids = prompt_ids(open_bundle(tiny.bundle(model, "ngram")))
    assert all(len(prompt) and prompt.max() < 2 for prompt in ids.values())


def test_running_text_is_as_long_as_asked_or_the_context(tiny: TinyBundles) -> None:
    bundle = open_bundle(tiny.bundle())
    assert len(token_text(bundle, 7)) == 7
    assert len(token_text(bundle, 1000)) == 48


def test_deterministic(tiny: TinyBundles, tmp_path: Path) -> None:
    bundle = open_bundle(tiny.bundle(tiny.model(tokenizer=None), "ngram"))
    np.testing.assert_array_equal(token_text(bundle, 40), token_text(bundle, 40))
