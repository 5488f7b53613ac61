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


def decoder_config(**changes: Any) -> dict[str, Any]:
    """config.json of a tiny llama; `changes` replace or add fields."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 300,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    } | changes


def decoder_weights(config: Mapping[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Random float32 weights for a `decoder_config`: biases as qwen2 or `attention_bias` has them, qwen3's qk norms."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes |= {f"{at}.input_layernorm.weight": (hidden,), f"{at}.post_attention_layernorm.weight": (hidden,)}
        shapes |= {f"{at}.self_attn.q_proj.weight": (q, hidden), f"{at}.self_attn.o_proj.weight": (hidden, q)}
        shapes |= {f"{at}.self_attn.{part}_proj.weight": (kv, hidden) for part in "kv"}
        shapes |= {f"{at}.mlp.{part}_proj.weight": (inner, hidden) for part in ("gate", "up")}
        shapes |= {f"{at}.mlp.down_proj.weight": (hidden, inner)}
        if config["model_type"] == "qwen2" or config.get("attention_bias"):
            shapes |= {f"{at}.self_attn.q_proj.bias": (q,)}
            shapes |= {f"{at}.self_attn.{part}_proj.bias": (kv,) for part in "kv"}
        if config.get("attention_bias"):
            shapes |= {f"{at}.self_attn.o_proj.bias": (hidden,)}
        if config["model_type"] == "qwen3":
            shapes |= {f"{at}.self_attn.{part}_norm.weight": (head,) for part in "qk"}
    shapes |= {"model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        shapes |= {"lm_head.weight": (config["vocab_size"], hidden)}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


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
