"""Texts to try a bundle on: prose, code, and something that repeats itself."""

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.text import TextCodec

PROMPTS = {
    "prose": "The lighthouse keeper had not spoken to anyone for a month when the small boat came into the bay. He",
    "code": "def fibonacci(n):\n    # Return the n-th Fibonacci number.\n    if n < 2:\n        return n\n",
    "list": "Monday: apples, pears. Tuesday: apples, plums. Wednesday: apples, pears. Thursday: apples, plums. Friday:",
}


def prompt_ids(bundle: Bundle) -> dict[str, NDArray[np.int64]]:
    """The three prompts as token ids, cut to a third of the context.

    Without a tokenizer, or where it has no token for one of them: ids of the same three kinds.
    """
    most = max(bundle.manifest.context // 3, 1)
    tokenizer, prompts = bundle.manifest.tokenizer, _made_up(bundle)
    if tokenizer is not None:
        codec = TextCodec(bundle.path(tokenizer.file), tokenizer)
        texts = {name: np.asarray(codec.encode(text), np.int64) for name, text in PROMPTS.items()}
        prompts = texts if all(map(len, texts.values())) else prompts
    return {name: ids[:most] for name, ids in prompts.items()}


def token_text(bundle: Bundle, count: int) -> NDArray[np.int64]:
    """`count` token ids of running text (fewer if the context is shorter)."""
    ids = np.concatenate(list(prompt_ids(bundle).values()))
    return np.resize(ids, min(count, bundle.manifest.context))


def _made_up(bundle: Bundle) -> dict[str, NDArray[np.int64]]:
    tokenizer = bundle.manifest.tokenizer
    count = bundle.manifest.verifier.vocab_rows if tokenizer is None else tokenizer.token_count
    random = np.random.default_rng(0).integers(0, count, 24)
    return {"random": random, "rising": np.arange(24) % count, "repeating": np.tile(random[:4], 6)}
