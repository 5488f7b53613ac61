"""GGUF metadata as the config.json fields transformers would have."""

from collections.abc import Mapping
from typing import Any

from specc.checkpoint.gguf_file import GgufFile
from specc.checkpoint.gguf_metadata import Metadata
from specc.checkpoint.gguf_names import ARCHITECTURES
from specc.checkpoint.gguf_rope import SCALING_KEYS, rope_scaling
from specc.errors import CheckpointError

_COUNTS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}
_CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
# Fields of each model type's config.json that a tensor's presence decides; qwen2 always has its biases, mistral none.
_BIAS_FIELDS: Mapping[str, Mapping[str, str]] = {
    "llama": {"attention_bias": "blk.0.attn_q.bias", "mlp_bias": "blk.0.ffn_up.bias"},
    "mistral": {},
    "qwen2": {},
    "qwen3": {"attention_bias": "blk.0.attn_q.bias"},
}
_DEFAULT_ROPE_THETA = 10000.0  # llama.cpp's, for files that leave it out
_TOKEN_IDS = {
    "tokenizer.ggml.bos_token_id": "bos_token_id",
    "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tokenizer.ggml.padding_token_id": "pad_token_id",
}
# Read elsewhere in this module, in gguf_rope, or saying nothing about the computation.
_KNOWN = {
    *_COUNTS,
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    *(f"rope.scaling.{key}" for key in SCALING_KEYS),
    "vocab_size",  # the embedding's rows count
    "tensor_data_layout",
}
_NEUTRAL: Mapping[str, object] = {"expert_count": 0, "expert_used_count": 0, "attention.causal": True}


def gguf_config(gguf: GgufFile) -> dict[str, Any]:
    """config.json's content for the model in a GGUF file.

    The vocabulary is the embedding's, the head is tied where the file has none. Raises CheckpointError for an
    architecture or a metadata key that specc does not know: what it says would otherwise be ignored.
    """
    metadata = gguf.metadata
    name = metadata.required("general.architecture", metadata.text("general.architecture"))
    if name not in ARCHITECTURES:
        raise CheckpointError(
            f"{gguf.file.path}: general.architecture {name!r} is not one specc reads from GGUF "
            f"({', '.join(ARCHITECTURES)}); take the model as safetensors"
        )
    _refuse_unknown(metadata, name)
    config = _model_type(metadata, name) | {"hidden_act": "silu"}
    for part, field in _COUNTS.items():
        key = f"{name}.{part}"
        config[field] = metadata.required(key, metadata.count(key))
    kv_heads = metadata.count(f"{name}.attention.head_count_kv")
    config["num_key_value_heads"] = config["num_attention_heads"] if kv_heads is None else kv_heads
    epsilon = f"{name}.attention.layer_norm_rms_epsilon"
    config["rms_norm_eps"] = metadata.required(epsilon, metadata.number(epsilon))
    config["head_dim"] = _head_dim(metadata, name, config)
    config |= _rope_fields(gguf, name, config["head_dim"])
    config |= _tensor_fields(gguf, config["model_type"])
    for key, field in _TOKEN_IDS.items():
        config[field] = metadata.integer(key)
    return config


def _refuse_unknown(metadata: Metadata, name: str) -> None:
    for key, value in metadata.items():
        if not key.startswith(f"{name}."):
            continue
        part = key.removeprefix(f"{name}.")
        if part in _KNOWN or (part in _NEUTRAL and _NEUTRAL[part] is value):
            continue
        raise CheckpointError(
            f"{metadata.path}: metadata {key!r} = {value!r:.40} is not one specc knows; take the model as safetensors"
        )


def _head_dim(metadata: Metadata, name: str, config: Mapping[str, Any]) -> int:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    stated = metadata.count(f"{name}.attention.key_length")
    if stated is None and hidden % heads:
        raise CheckpointError(
            f"{metadata.path}: {name}.embedding_length {hidden} does not divide into {heads} heads; convert it again"
        )
    head_dim = hidden // heads if stated is None else stated
    for part in ("attention.value_length", "rope.dimension_count"):
        width = metadata.count(f"{name}.{part}")
        if width not in (None, head_dim):
            raise CheckpointError(
                f"{metadata.path}: {name}.{part} is {width}, but heads are {head_dim} wide; "
                "specc builds only models where they agree"
            )
    return head_dim


def _rope_fields(gguf: GgufFile, name: str, head_dim: int) -> dict[str, Any]:
    theta = gguf.metadata.number(f"{name}.rope.freq_base")
    theta = _DEFAULT_ROPE_THETA if theta is None else theta
    if theta <= 0:
        raise CheckpointError(f"{gguf.file.path}: {name}.rope.freq_base is {theta}; convert the model again")
    return {"rope_theta": theta, "rope_scaling": rope_scaling(gguf, name, theta, head_dim)}


def _tensor_fields(gguf: GgufFile, model_type: str) -> dict[str, Any]:
    """What only the tensors tell: vocabulary, a tied head, biases."""
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise CheckpointError(f"{gguf.file.path}: has no two-dimensional tensor 'token_embd.weight'; convert it again")
    return {
        "vocab_size": embedding.shape[0],
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        **{field: tensor in gguf.tensors for field, tensor in _BIAS_FIELDS[model_type].items()},
    }


def _model_type(metadata: Metadata, name: str) -> dict[str, Any]:
    """model_type, class and window; GGUF calls mistral llama, and only a window tells them apart."""
    window = metadata.integer(f"{name}.attention.sliding_window")
    if not window:
        return {"model_type": name, "architectures": [_CLASSES[name]]}
    if name != "llama":
        raise CheckpointError(
            f"{metadata.path}: {name}.attention.sliding_window is {window}, without saying for which layers; "
            "take the model as safetensors"
        )
    return {"model_type": "mistral", "architectures": [_CLASSES["mistral"]], "sliding_window": window}
