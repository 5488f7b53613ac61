"""GGUF tensor names as Hugging Face names, and the rows the GGUF converter moved put back.

For the llama architecture the converter reorders the rows of q and k, head by head, so that the two halves of a
rotary pair are neighbours (ggml's "norm" rope); Hugging Face keeps them half a head apart (rotate-half). The other
architectures are stored in the rotate-half form already.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specc.checkpoint.gguf_file import GgufFile, TensorInfo
from specc.checkpoint.gguf_tensor import GgufTensor, gguf_tensor
from specc.errors import CheckpointError

_MODEL = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_QK_NORM = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


@dataclass(frozen=True)
class Architecture:
    """What a GGUF architecture's tensors are called.

    block: names inside a layer, without `blk.N.` and `.weight` or `.bias`, and their Hugging Face counterparts.
    neighbouring_pairs: whether q and k rows were reordered for ggml's "norm" rope.
    """

    block: Mapping[str, str]
    neighbouring_pairs: bool = False


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(_BLOCK, neighbouring_pairs=True),
    "qwen2": Architecture(_BLOCK),
    "qwen3": Architecture({**_BLOCK, **_QK_NORM}),
}

ROPE_FACTORS = "rope_freqs.weight"  # read with the config: it is a rope scaling, not a weight
_NAME = re.compile(r"(?:blk\.(?P<layer>\d{1,6})\.)?(?P<part>\w+)\.(?P<kind>weight|bias)")


def gguf_weights(gguf: GgufFile, architecture: Architecture, config: Mapping[str, Any]) -> dict[str, GgufTensor]:
    """The file's tensors by Hugging Face name.

    config: as `gguf_config` rebuilt it; its head counts say which rows to move. Raises CheckpointError for a tensor
    the architecture does not have, or one whose rows do not divide into the heads.
    """
    weights: dict[str, GgufTensor] = {}
    for info in gguf.tensors.values():
        if info.name == ROPE_FACTORS:
            continue
        name = _hugging_face_name(gguf, architecture, info.name)
        heads = _heads(info.name, config) if architecture.neighbouring_pairs else None
        order = None if heads is None else _rotate_half_rows(gguf, info, heads)
        weights[name] = gguf_tensor(gguf, info, name, order)
    return weights


def _hugging_face_name(gguf: GgufFile, architecture: Architecture, name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is not None:
        layer, part, kind = match["layer"], match["part"], match["kind"]
        if layer is None and part in _MODEL:
            return f"{_MODEL[part]}.{kind}"
        if layer is not None and part in architecture.block:
            return f"model.layers.{int(layer)}.{architecture.block[part]}.{kind}"
    raise CheckpointError(
        f"{gguf.file.path}: tensor {name!r} is no part of the {gguf.metadata['general.architecture']} architecture "
        "as specc knows it; take a model without it"
    )


def _heads(name: str, config: Mapping[str, Any]) -> int | None:
    """How many heads the rows of a q or k projection are; None for every other tensor."""
    match name.split(".")[-2]:
        case "attn_q":
            return int(config["num_attention_heads"])
        case "attn_k":
            return int(config["num_key_value_heads"])
    return None


def _rotate_half_rows(gguf: GgufFile, info: TensorInfo, heads: int) -> np.ndarray:
    """For each row in rotate-half order, the row of the file that holds it: row 2j+h of a head becomes h*D/2+j."""
    rows = info.shape[0]
    if rows % (2 * heads):
        raise CheckpointError(
            f"{gguf.file.path}: tensor {info.name!r} has {rows} rows, which are not {heads} heads of even size; "
            "convert the model again"
        )
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)
