"""The tokenizer in a GGUF file's metadata, rebuilt as a tokenizer.json.

Two models are read: "gpt2", byte-level BPE with its merges and a named splitting rule, and "llama", SentencePiece BPE
whose merges are found again from the pieces' scores.
"""

import json
from typing import Any

from specc.checkpoint.gguf_metadata import Metadata
from specc.checkpoint.gguf_pretokenizers import PRE_TOKENIZERS, PreTokenizer
from specc.checkpoint.gguf_sentencepiece import merges_by_score
from specc.checkpoint.gguf_vocabulary import Vocabulary, read_vocabulary, token_id
from specc.checkpoint.tokenizer_json import load_tokenizer, settle_bos
from specc.checkpoint.types import TokenizerFiles
from specc.errors import CheckpointError

_AGAIN = "convert the model again"
_ELSEWHERE = "take the model as safetensors"
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")  # of the text, of a turn, of a message
_NORMALISATIONS = ("tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.remove_extra_whitespaces")


def gguf_tokenizer(metadata: Metadata) -> TokenizerFiles | None:
    """The file's tokenizer; None if it states none (`tokenizer.ggml.model` absent or "none").

    Raises CheckpointError naming the metadata key that is missing, contradictory or of a kind specc does not know.
    """
    model = metadata.text("tokenizer.ggml.model") or "none"
    if model == "none":
        return None
    vocabulary = read_vocabulary(metadata)
    if model == "gpt2":
        rule = _splitting_rule(metadata)
        content, default_add_bos = _byte_level(metadata, vocabulary, rule), rule.add_bos
    elif model == "llama":
        content, default_add_bos = _sentencepiece(metadata, vocabulary), True
    else:
        raise CheckpointError(f"{metadata.path}: tokenizer.ggml.model {model!r:.60} is not gpt2 or llama; {_ELSEWHERE}")
    tokenizer = load_tokenizer(json.dumps(content, ensure_ascii=False), f"{metadata.path}: its tokenizer", _AGAIN)
    bos_id = token_id(metadata, "bos_token_id", vocabulary)
    stated = metadata.flag("tokenizer.ggml.add_bos_token")
    add_bos = bos_id is not None and (default_add_bos if stated is None else stated)
    settle_bos(tokenizer, bos_id, add_bos)
    ends = [token_id(metadata, name, vocabulary) for name in _ENDS]
    return TokenizerFiles(
        json=tokenizer.to_str(),
        chat_template=metadata.text("tokenizer.chat_template"),
        bos_id=bos_id,
        eos_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
        pad_id=token_id(metadata, "padding_token_id", vocabulary),
        add_bos=add_bos,
    )


def _splitting_rule(metadata: Metadata) -> PreTokenizer:
    key = "tokenizer.ggml.pre"
    name = metadata.required(key, metadata.text(key))
    if name not in PRE_TOKENIZERS:
        raise CheckpointError(
            f"{metadata.path}: {key} {name!r:.60} is not one specc knows ({', '.join(PRE_TOKENIZERS)}); {_ELSEWHERE}"
        )
    return PRE_TOKENIZERS[name]


def _byte_level(metadata: Metadata, vocabulary: Vocabulary, rule: PreTokenizer) -> dict[str, Any]:
    """tokenizer.json of a byte-level BPE model."""
    key = "tokenizer.ggml.merges"
    merges = [merge.split(" ") for merge in metadata.required(key, metadata.texts(key))]
    if wrong := [merge for merge in merges if len(merge) != 2]:
        raise CheckpointError(f"{metadata.path}: {key} holds {' '.join(wrong[0])!r:.60}, not two tokens; {_AGAIN}")
    return {
        "version": "1.0",
        "added_tokens": vocabulary.added_tokens(),
        "normalizer": {"type": "NFC"} if rule.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(rule.stages)},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary.ids, "merges": merges, "ignore_merges": rule.ignore_merges},
    }


def _sentencepiece(metadata: Metadata, vocabulary: Vocabulary) -> dict[str, Any]:
    """tokenizer.json of a SentencePiece BPE model, laid out as Llama 2's.

    GGUF does not say whether text after a special token gets the space prefix too: here it does, as in llama.cpp.
    """
    for key in _NORMALISATIONS:
        if key in metadata and metadata[key] is not False:
            raise CheckpointError(f"{metadata.path}: {key} is a normalisation specc does not rebuild; {_ELSEWHERE}")
    key = "tokenizer.ggml.scores"
    scores = metadata.required(key, metadata.numbers(key)).tolist()
    if len(scores) != len(vocabulary.tokens):
        raise CheckpointError(
            f"{metadata.path}: {key} has {len(scores)} entries for {len(vocabulary.tokens)} tokens; {_AGAIN}"
        )
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix") is not False
    prepend: list[dict[str, Any]] = [{"type": "Prepend", "prepend": "▁"}] if prefix else []
    strip: list[dict[str, Any]] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        "version": "1.0",
        "added_tokens": vocabulary.added_tokens(),
        "normalizer": {"type": "Sequence", "normalizers": [*prepend, _replace(" ", "▁")]},
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [_replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *strip],
        },
        "model": {
            "type": "BPE",
            "vocab": vocabulary.ids,
            "merges": merges_by_score(metadata.path, vocabulary, scores),
            "unk_token": vocabulary.unknown_token(),
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}
