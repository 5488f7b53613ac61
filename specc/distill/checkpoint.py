"""A trained drafter as a folder in the `speculators` format (read by specc.checkpoint.speculator)."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from specc.assembly.sources import ModelSource
from specc.distill.arithmetic import split_qkv
from specc.distill.options import DistillOptions
from specc.distill.working_folder import write_whole
from specc.models.spec import DecoderSpec

WEIGHTS, CONFIG = "model.safetensors", "config.json"

_NAMES = {
    "fc": "fc.weight",
    "norm": "norm.weight",
    "hidden_norm": "layers.0.hidden_norm.weight",
    "input_norm": "input_layernorm.weight",
    "mlp_norm": "post_attention_layernorm.weight",
    "output": "self_attn.o_proj.weight",
    "down": "mlp.down_proj.weight",
}
"""The drafters' parameters in the format's names; packed ones are split."""


def write_drafter(
    folder: Path,
    weights: dict[str, Tensor],
    ids: Tensor,
    options: DistillOptions,
    source: ModelSource,
    feature_layers: tuple[int, ...],
) -> str:
    """Write config.json and fp16 weights; embedding and head stay the verifier's. Returns the weights' sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: t.half().cpu().contiguous() for name, t in _split(weights, source.spec).items()}
    tensors |= _vocabulary(ids.cpu(), source.spec.vocab_rows)
    data = save(tensors, {"format": "pt"})
    write_whole(folder / WEIGHTS, data)
    config = _config(options, source, feature_layers, len(ids))
    write_whole(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    return hashlib.sha256(data).hexdigest()


def _split(weights: dict[str, Tensor], spec: DecoderSpec) -> dict[str, Tensor]:
    tensors = {}
    for full_name, tensor in weights.items():
        prefix, _, name = full_name.rpartition(".")
        prefix = prefix and prefix + "."
        if name == "qkv":
            for part, rows in zip("qkv", split_qkv(spec, tensor, 0), strict=True):
                tensors[f"{prefix}self_attn.{part}_proj.weight"] = rows
        elif name == "gate_up":
            for part, rows in zip(("gate", "up"), tensor.chunk(2), strict=True):
                tensors[f"{prefix}mlp.{part}_proj.weight"] = rows
        elif name == "fc_norm":
            tensors |= {f"fc_norm.{i}.weight": row for i, row in enumerate(tensor.reshape(-1, spec.hidden))}
        else:
            tensors[prefix + _NAMES[name]] = tensor
    return tensors


def _vocabulary(ids: Tensor, vocabulary: int) -> dict[str, Tensor]:
    kept = torch.zeros(vocabulary, dtype=torch.bool)
    kept[ids] = True
    return {"d2t": ids - torch.arange(len(ids)), "t2d": kept}


def _config(
    options: DistillOptions, source: ModelSource, feature_layers: tuple[int, ...], head_rows: int
) -> dict[str, Any]:
    feature = options.architecture == "feature"
    algorithm = "eagle3" if feature else "independent"
    config: dict[str, Any] = {
        "architectures": ["Eagle3Speculator" if feature else "IndependentSpeculator"],
        "speculators_model_type": algorithm,
        "draft_vocab_size": head_rows,
        "transformer_layer_config": _layer_config(source),
        "speculators_config": {
            "algorithm": algorithm,
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": options.recipe.steps}],
            "default_proposal_method": "greedy",
            "verifier": {
                "name_or_path": options.verifier,
                "architectures": list(source.checkpoint.config.get("architectures") or ()),
            },
        },
    }
    if feature:
        reading = {"norm_before_residual": True, "norm_before_fc": False, "fc_norm": True, "norm_output": False}
        config |= {"eagle_aux_hidden_state_layer_ids": list(feature_layers), **reading}
    return config


def _layer_config(source: ModelSource) -> dict[str, Any]:
    """One Llama layer of the verifier's sizes and rope."""
    spec, given = source.spec, source.checkpoint.config
    rope = {key: given[key] for key in ("rope_theta", "rope_scaling", "rope_parameters") if given.get(key) is not None}
    return {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.mlp.intermediate,
        "num_attention_heads": spec.attention.heads,
        "num_key_value_heads": spec.attention.kv_heads,
        "head_dim": spec.attention.head_dim,
        "hidden_act": "silu",
        "vocab_size": spec.vocab_rows,
        "max_position_embeddings": spec.context,
        "rms_norm_eps": spec.epsilon,
        "tie_word_embeddings": False,
        **rope,
    }
