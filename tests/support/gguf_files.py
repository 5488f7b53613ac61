"""GGUF files small enough to write in a test."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

_VALUE_TYPES = {str: GGUFValueType.STRING, bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32}
_VALUE_TYPES |= {float: GGUFValueType.FLOAT32, list: GGUFValueType.ARRAY}
_ARRAY_TYPES = {"int32": GGUFValueType.INT32, "float32": GGUFValueType.FLOAT32}

Stored = np.ndarray | tuple[np.ndarray, GGMLQuantizationType]


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Stored]) -> Path:
    """Write a GGUF file; returns `path`.

    metadata: str, bool, int (uint32), float (float32), list of str, or an int32 or float32 array, by full key;
    "general.architecture" must be among them. tensors: float32 or float16 arrays as they are, or (float32 array, type
    to quantise it to), by GGUF name.
    """
    metadata = dict(metadata)
    writer = GGUFWriter(path, metadata.pop("general.architecture"))
    for key, value in metadata.items():
        if isinstance(value, np.ndarray):
            writer.add_key_value(key, value.tolist(), GGUFValueType.ARRAY, _ARRAY_TYPES[value.dtype.name])
        else:
            sub_type = GGUFValueType.STRING if isinstance(value, list) else None
            writer.add_key_value(key, value, _VALUE_TYPES[type(value)], sub_type)
    for name, stored in tensors.items():
        array, kind = stored if isinstance(stored, tuple) else (stored, None)
        writer.add_tensor(name, array if kind is None else gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def decoder_metadata(architecture: str = "llama", **changes: Any) -> dict[str, Any]:
    """Metadata of `decoder_tensors`' model; a change of `block_count` sets `ARCHITECTURE.block_count`, None drops it.

    Dots in keys are written as double underscores.
    """
    parts = {
        "block_count": 2,
        "context_length": 128,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention__head_count": 4,
        "attention__head_count_kv": 2,
        "attention__layer_norm_rms_epsilon": 1e-5,
        "rope__freq_base": 10000.0,
    } | changes
    named = {f"{architecture}.{key.replace('__', '.')}": value for key, value in parts.items() if value is not None}
    return {"general.architecture": architecture, "general.license": "apache-2.0", **named}


def decoder_tensors(weights: Mapping[str, np.ndarray], heads: int, kv_heads: int, moved: bool) -> dict[str, np.ndarray]:
    """A decoder's weights, by Hugging Face name, as the GGUF converter names them.

    moved: reorder the rows of q and k for neighbouring rotary pairs, as the converter does for the llama architecture.
    """
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    tensors = {}
    for name, array in weights.items():
        part, kind = name.rsplit(".", 1)
        if part.startswith("model.layers."):
            layer, part = part.removeprefix("model.layers.").split(".", 1)
            target = f"blk.{layer}.{names[part]}.{kind}"
        else:
            target = f"{names[part]}.{kind}"
        count = {"self_attn.q_proj": heads, "self_attn.k_proj": kv_heads}.get(part)
        tensors[target] = _neighbouring_pairs(array, count) if moved and count else array
    return tensors


def tokenizer_metadata(tokenizer_json: str, pre: str = "gpt-2") -> dict[str, Any]:
    """The metadata a converter writes for a byte-level tokenizer.json; its added tokens become control tokens."""
    content = json.loads(tokenizer_json)
    ids = content["model"]["vocab"] | {token["content"]: token["id"] for token in content["added_tokens"]}
    added = {token["id"] for token in content["added_tokens"]}
    tokens = sorted(ids, key=lambda token: ids[token])
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([3 if ids[token] in added else 1 for token in tokens], np.int32),
        "tokenizer.ggml.merges": [" ".join(merge) for merge in content["model"]["merges"]],
    }


def _neighbouring_pairs(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows j and j + D/2 of each head of width D put side by side."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(array.shape).copy()
