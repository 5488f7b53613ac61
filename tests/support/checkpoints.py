"""Checkpoints small enough to write in a test: Hugging Face directories and byte-level tokenizers."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_hf_checkpoint(
    path: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    tokenizer_json: str | None = None,
    shards: int = 1,
    generation_config: Mapping[str, Any] | None = None,
    tokenizer_config: Mapping[str, Any] | None = None,
    chat_template: str | None = None,
) -> Path:
    """Write a checkpoint as transformers' `save_pretrained` lays it out; returns `path`.

    weights: by Hugging Face name, float32, float16 or ml_dtypes.bfloat16. With `shards` above 1 they are dealt out in
    order over that many files, listed in model.safetensors.index.json.
    """
    path.mkdir(parents=True, exist_ok=True)
    _write_json(path / "config.json", config)
    _write_weights(path, weights, shards)
    if tokenizer_json is not None:
        (path / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    if generation_config is not None:
        _write_json(path / "generation_config.json", generation_config)
    if tokenizer_config is not None:
        _write_json(path / "tokenizer_config.json", tokenizer_config)
    if chat_template is not None:
        (path / "chat_template.jinja").write_text(chat_template, encoding="utf-8")
    return path


def tiny_tokenizer_json(vocab_size: int, special_tokens: Sequence[str] = ()) -> str:
    """Text of a byte-level BPE tokenizer.json with exactly `vocab_size` ids, the special tokens last.

    The first ids are single bytes, lower-case letters first, so that a vocabulary of 3 is "a", "b", "c". Any text
    round-trips from 256 ids on; below that, bytes without an id are dropped. Ids after the bytes are letter pairs.
    """
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet(), key=lambda symbol: (symbol not in _LETTERS, symbol))
    merges = list(product(_LETTERS, _LETTERS))
    plain = vocab_size - len(special_tokens)
    if not 0 < plain <= len(symbols) + len(merges):
        raise ValueError(f"vocab_size {vocab_size} must leave 1 to {len(symbols) + len(merges)} ids for plain tokens")
    symbols, merges = symbols[:plain], merges[: max(0, plain - len(symbols))]
    vocab = {token: index for index, token in enumerate(symbols + [left + right for left, right in merges])}
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special_tokens])
    return tokenizer.to_str()


def _write_weights(path: Path, weights: Mapping[str, np.ndarray], shards: int) -> None:
    if shards == 1:
        save_file(dict(weights), path / "model.safetensors", metadata={"format": "pt"})
        return
    names = [f"model-{shard + 1:05d}-of-{shards:05d}.safetensors" for shard in range(shards)]
    shard_of = {name: index * shards // len(weights) for index, name in enumerate(weights)}
    for shard, file_name in enumerate(names):
        held = {name: array for name, array in weights.items() if shard_of[name] == shard}
        save_file(held, path / file_name, metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": sum(array.nbytes for array in weights.values())},
        "weight_map": {name: names[shard] for name, shard in shard_of.items()},
    }
    _write_json(path / "model.safetensors.index.json", index)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
