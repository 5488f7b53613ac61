"""Drafters in the `speculators` format, random and tiny, and EAGLE-3's arithmetic in plain numpy."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Array = NDArray[Any]

FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")


def layer_config(**changes: Any) -> dict[str, Any]:
    """The layer of a tiny drafter for `checkpoints.decoder_config`'s verifier; `changes` replace or add fields."""
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 1,
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


def speculator_config(
    layer: Mapping[str, Any],
    *,
    model_type: str = "eagle3",
    head_rows: int | None = None,
    feature_layers: Sequence[int] | None = (0, 1, 2),
    **flags: bool,
) -> dict[str, Any]:
    """config.json of a drafter. flags: of FLAGS, those that are true."""
    config = {
        "architectures": ["Eagle3Speculator" if model_type == "eagle3" else "IndependentSpeculator"],
        "speculators_model_type": model_type,
        "draft_vocab_size": layer["vocab_size"] if head_rows is None else head_rows,
        "transformer_layer_config": dict(layer),
        "speculators_config": {"algorithm": model_type, "verifier": {"name_or_path": "tiny", "architectures": []}},
    }
    if model_type == "eagle3":
        config |= {flag: flags.get(flag, False) for flag in FLAGS}
        config["eagle_aux_hidden_state_layer_ids"] = None if feature_layers is None else list(feature_layers)
    return config


def speculator_weights(
    layer: Mapping[str, Any],
    *,
    features: int = 3,
    verifier_hidden: int | None = None,
    head_rows: int | None = None,
    own_embedding: bool = False,
    seed: int = 0,
    **flags: bool,
) -> dict[str, Array]:
    """Random weights (std 0.3, norms around 1). features: verifier layers read, 0 for an independent drafter."""
    hidden, inner, head = layer["hidden_size"], layer["intermediate_size"], layer["head_dim"]
    q, kv = layer["num_attention_heads"] * head, layer["num_key_value_heads"] * head
    read = verifier_hidden or hidden
    shapes: dict[str, tuple[int, ...]] = {"norm.weight": (hidden,)}
    if features:
        shapes |= {"fc.weight": (hidden, features * read), "layers.0.hidden_norm.weight": (hidden,)}
        if flags.get("fc_norm"):
            shapes |= {f"fc_norm.{i}.weight": (read,) for i in range(features)}
        if flags.get("norm_before_fc"):
            shapes["input_norm.weight"] = (features * read,)
    for number in range(layer["num_hidden_layers"]):
        at, columns = f"layers.{number}", 2 * hidden if features and not number else hidden
        shapes |= {f"{at}.input_layernorm.weight": (hidden,), f"{at}.post_attention_layernorm.weight": (hidden,)}
        shapes |= {f"{at}.self_attn.q_proj.weight": (q, columns)}
        shapes |= {f"{at}.self_attn.{part}_proj.weight": (kv, columns) for part in "kv"}
        shapes |= {f"{at}.self_attn.o_proj.weight": (hidden, q), f"{at}.mlp.down_proj.weight": (hidden, inner)}
        shapes |= {f"{at}.mlp.{part}_proj.weight": (inner, hidden) for part in ("gate", "up")}
    if head_rows is not None:
        shapes["lm_head.weight"] = (head_rows, hidden)
    if own_embedding:
        shapes["embed_tokens.weight"] = (layer["vocab_size"], hidden)
    rng = np.random.default_rng(seed)
    return {
        name: (rng.standard_normal(shape) * 0.3 + ("norm" in name)).astype(np.float32) for name, shape in shapes.items()
    }


def write_speculator(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, Array], head_ids: Array | None = None
) -> Path:
    """Write a drafter's folder; returns it. head_ids: full id of each head row, ascending, if the head is trimmed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = dict(weights)
    if head_ids is not None:
        tensors["d2t"] = np.asarray(head_ids, np.int64) - np.arange(len(head_ids))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


class FeatureDrafterReference:
    """EAGLE-3 in float64, every position anew at each call. weights: by the format's names; flags: of FLAGS."""

    def __init__(self, layer: Mapping[str, Any], weights: Mapping[str, Array], **flags: bool) -> None:
        self._layer = layer
        self._weights = {name: np.asarray(array, np.float64) for name, array in weights.items()}
        self._flags = flags

    def fused(self, streams: Sequence[Array]) -> Array:
        """Features `[N, H]` of the verifier's streams, each `[N, verifier_hidden]`."""
        if self._flags.get("fc_norm"):
            streams = [self._norm(stream, f"fc_norm.{i}") for i, stream in enumerate(streams)]
        joined = np.concatenate(streams, axis=-1)
        if self._flags.get("norm_before_fc"):
            joined = self._norm(joined, "input_norm")
        return joined @ self._weights["fc.weight"].T

    def run(self, embeddings: Array, features: Array) -> tuple[Array, Array]:
        """What the head reads and what the next position gets as its feature, each `[N, H]`, of a whole sequence."""
        normed = self._norm(features, "layers.0.hidden_norm")
        read = np.concatenate([self._norm(embeddings, "layers.0.input_layernorm"), normed], axis=-1)
        stream = self._residual(0, normed if self._flags.get("norm_before_residual") else features, read)
        for number in range(1, self._layer["num_hidden_layers"]):
            stream = self._residual(number, stream, self._norm(stream, f"layers.{number}.input_layernorm"))
        out = self._norm(stream, "norm")
        return out, out if self._flags.get("norm_output") else stream

    def _residual(self, number: int, residual: Array, read: Array) -> Array:
        weights, at = self._weights, f"layers.{number}"
        stream = residual + self._attention(read, at)
        normed = self._norm(stream, f"{at}.post_attention_layernorm")
        gate, up = (normed @ weights[f"{at}.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        return stream + (gate / (1 + np.exp(-gate)) * up) @ weights[f"{at}.mlp.down_proj.weight"].T

    def _attention(self, read: Array, at: str) -> Array:
        layer, weights = self._layer, self._weights
        heads, groups, size = layer["num_attention_heads"], layer["num_key_value_heads"], layer["head_dim"]
        count = len(read)
        q, k, v = (
            (read @ weights[f"{at}.self_attn.{part}_proj.weight"].T).reshape(count, -1, size).transpose(1, 0, 2)
            for part in "qkv"
        )
        q, k = self._rotated(q), np.repeat(self._rotated(k), heads // groups, axis=0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(size)
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        law = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = law / law.sum(-1, keepdims=True) @ np.repeat(v, heads // groups, axis=0)
        return mixed.transpose(1, 0, 2).reshape(count, -1) @ weights[f"{at}.self_attn.o_proj.weight"].T

    def _rotated(self, rows: Array) -> Array:
        size = self._layer["head_dim"]
        angles = np.outer(np.arange(rows.shape[1]), self._layer["rope_theta"] ** -(np.arange(0, size, 2) / size))
        low, high = np.split(rows, 2, axis=-1)
        return np.concatenate(
            [low * np.cos(angles) - high * np.sin(angles), high * np.cos(angles) + low * np.sin(angles)], axis=-1
        )

    def _norm(self, x: Array, name: str) -> Array:
        scale = np.sqrt((x**2).mean(-1, keepdims=True) + self._layer["rms_norm_eps"])
        return x / scale * self._weights[f"{name}.weight"]
