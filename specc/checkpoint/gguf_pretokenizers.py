"""How text is split before byte-level BPE merges, by the name a GGUF file gives it (`tokenizer.ggml.pre`).

Each entry is the rule of the tokenizer.json that the name stands for, so that ids equal those of the original model;
llama.cpp approximates the same rules with the regular expressions its own engine can run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _LINES_AND_SPACES
)

_Stage = Mapping[str, Any]


def _split(pattern: str) -> _Stage:
    """Matches of the pattern and the gaps between them become pieces."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _bytes(use_regex: bool) -> _Stage:
    """Bytes as printable characters, after GPT-2's own split if `use_regex`."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


@dataclass(frozen=True)
class PreTokenizer:
    """One splitting rule.

    stages: tokenizer.json pre-tokenizers applied in turn, each to the pieces the one before left.
    nfc: whether text is first composed (Unicode NFC).
    ignore_merges: a piece that is a token as a whole is taken whole, whatever the merges say.
    add_bos: whether files that don't say begin prompts with BOS (llama.cpp's default for the name).
    """

    stages: tuple[_Stage, ...]
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False


_LLAMA3_RULE = PreTokenizer((_split(_LLAMA3), _bytes(False)), ignore_merges=True, add_bos=True)

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    "gpt-2": PreTokenizer((_bytes(True),)),
    "smollm": PreTokenizer(({"type": "Digits", "individual_digits": True}, _bytes(True))),
    "llama-bpe": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "qwen2": PreTokenizer((_split(_QWEN2), _bytes(False)), nfc=True),
    "tekken": PreTokenizer((_split(_TEKKEN), _bytes(False)), ignore_merges=True, add_bos=True),
    # What llama.cpp does for a converter that did not recognise the tokenizer: no original stands behind it.
    "default": PreTokenizer(
        (_split(r"[\p{P}$+<=>^~|]+"), _split(_GPT2), _split(r"\p{N}+"), _split(r"[0-9]{3}"), _bytes(False))
    ),
}
