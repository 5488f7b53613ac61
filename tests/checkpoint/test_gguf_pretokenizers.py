import json

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from specc.checkpoint.gguf_pretokenizers import PRE_TOKENIZERS

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def pieces(name, text):
    """What the rule splits `text` into, in plain text again."""
    rule = PRE_TOKENIZERS[name]
    content = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "NFC"} if rule.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(rule.stages)},
        "model": {"type": "BPE", "vocab": {symbol: i for i, symbol in enumerate(ALPHABET)}, "merges": []},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    }
    tokenizer = Tokenizer.from_str(json.dumps(content))
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    return [tokenizer.decoder.decode([piece]) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt-2", "I'll pay 12345 euros!!\n\n  ok", ["I", "'ll", " pay", " 12345", " euros", "!!", "\n\n ", " ok"]),
        ("gpt-2", "I'LL", ["I", "'", "LL"]),
        ("smollm", "x12 34", ["x", "1", "2", " ", "3", "4"]),
        ("smollm", " ½² ٣Ⅷ", [" ", "½", "²", " ", "٣", "Ⅷ"]),
        ("smollm", "a\n\n  b", ["a", "\n\n ", " b"]),
        ("llama-bpe", "I'LL pay 12345!!\n\n  ok", ["I", "'LL", " pay", " ", "123", "45", "!!\n\n", " ", " ok"]),
        ("llama-bpe", "(x)\r\n\ty ", ["(x", ")\r\n", "\ty", " "]),
        ("qwen2", "I'LL pay 123!!\n\n  ok", ["I", "'LL", " pay", " ", "1", "2", "3", "!!\n\n", " ", " ok"]),
        ("qwen2", "e\u0301", ["\u00e9"]),
        ("llama-bpe", "e\u0301", ["e", "\u0301"]),
        ("tekken", "HelloWorld ABCdef 12 a/b/\n", ["Hello", "World", " ABCdef", " ", "1", "2", " a", "/b", "/\n"]),
        ("default", "a+b 1234 don't", ["a", "+", "b", " ", "123", "4", " don", "'", "t"]),
    ],
)
def test_pieces_by_hand(name, text, expected):
    assert pieces(name, text) == expected


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_no_rule_loses_text(name):
    text = "Zürich 2024\t\n  日本語 👩‍👩‍👧 x² (a+b)\r\n\u00a0end   "
    assert "".join(pieces(name, text)) == text


@pytest.mark.parametrize("alias", ["llama-v3", "llama3"])
def test_aliases(alias):
    assert PRE_TOKENIZERS[alias] is PRE_TOKENIZERS["llama-bpe"]
