"""The prompts speculation is measured on when a bundle is compiled."""

import numpy as np

from specc.render.chat import conversation
from specc.resources import read_data
from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Tokens
from specc_runtime.text import TextCodec

FILE = "prompts.txt"
PASSAGES = 8  # a user's own text is cut into this many prompts
LONGEST = 256  # tokens of a prompt, and never more than half of the context


def calibration_prompts(bundle: Bundle, text: str | None) -> list[Tokens]:
    """Prompts as token ids: passages of `text`, or if that is None the shipped ones as a chat, where it has a format.

    A bundle without a tokenizer gets made-up ids, as random as its tokens are then.
    """
    info, most = bundle.manifest.tokenizer, max(1, min(LONGEST, bundle.manifest.context // 2))
    if info is None:
        random = np.random.default_rng(0)
        return [random.integers(0, bundle.manifest.verifier.vocab_rows, min(24, most)) for _ in range(PASSAGES)]
    if text is not None:
        texts = _passages(text)
    elif info.chat_template is None:
        texts = read_data("calibration", FILE).splitlines()
    else:
        lines = read_data("calibration", FILE).splitlines()
        texts = [conversation(bundle.root, info, [{"role": "user", "content": line}]) for line in lines]
    codec = TextCodec(bundle.path(info.file), info)
    prompts = [np.asarray(codec.encode(text), np.int64)[-most:] for text in texts]
    return [prompt for prompt in prompts if len(prompt)]


def _passages(text: str) -> list[str]:
    """`text` in PASSAGES pieces of equal length."""
    length = -(-len(text) // PASSAGES)
    return [text[start : start + length] for start in range(0, len(text), length)]
