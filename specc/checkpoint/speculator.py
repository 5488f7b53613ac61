"""Drafters that read a verifier: a folder with config.json in the `speculators` format, and safetensors.

Two architectures (`speculators_model_type`):
- "eagle3" (EAGLE-3, Li et al. 2025), a feature drafter. Position i reads the verifier's features of position i-1 and
  the embedding of token i:
      g = fc(features of position i-1), or the drafter's own output there;  h = hidden_norm(g)
      x = [input_layernorm(embedding of token i); h];  r = h if norm_before_residual else g
      y = r + attention(x);  out = y + mlp(post_attention_layernorm(y));  logits = head(norm(out))
  `out` (norm(out) if norm_output) is the next position's g. q, k and v read 2 x hidden columns. Features are the
  residual streams before the layers in `eagle_aux_hidden_state_layer_ids` side by side (as many layers as the verifier
  has: after its last), each under its own RMS norm first if `fc_norm`, all under one if `norm_before_fc`.
- "independent": a decoder of its own, named as in the Llama family (`layers.0...`, `norm.weight`).

The head stands on a trimmed vocabulary: head row i is token i + d2t[i] (int64, `draft_vocab_size` rows). Without
`lm_head.weight` the head is the verifier's own rows of those tokens, without `embed_tokens.weight` the embedding is the
verifier's. EAGLE-3 heads as their authors publish them (`midlayer.` names, the layer's fields in config.json itself)
are read too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc.checkpoint.hf_directory import open_hf_directory
from specc.checkpoint.json_file import read_json_object
from specc.checkpoint.types import Weights, WeightTensor
from specc.errors import CheckpointError, unknown

ARCHITECTURES = ("eagle3", "independent")

_FIX = "give a drafter folder with config.json in the speculators format"
_PUBLISHED = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM")
_BUFFERS = ("d2t", "t2d")
_LAYERS = "eagle_aux_hidden_state_layer_ids"
_FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
_BESIDE_LAYER = ("draft_vocab_size", "target_hidden_size", "architectures", "eagle_config", _LAYERS, *_FLAGS)


@dataclass(frozen=True)
class FeatureReading:
    """How a feature drafter reads the verifier. layers: None where the checkpoint leaves them to EAGLE-3's default."""

    layers: tuple[int, ...] | None
    norm_before_residual: bool
    norm_before_fc: bool
    fc_norm: bool
    norm_output: bool

    def resolved_layers(self, verifier_layers: int) -> tuple[int, ...]:
        """The layers before which the residual stream is read; by default an early, a middle and a late one."""
        return default_feature_layers(verifier_layers) if self.layers is None else self.layers


@dataclass(frozen=True)
class Speculator:
    """An opened drafter.

    architecture: one of ARCHITECTURES. layer_config: the decoder's fields as in a Llama config.json.
    weights: by name, `layers.0.self_attn.q_proj.weight` and so on, without d2t and t2d. features: of an eagle3.
    head_ids: token of each head row, ascending int32; None when the head has a row for every token.
    verifier: what it was trained for, if stated. config: all of config.json. provenance: as of a Checkpoint.
    """

    source: str
    path: str
    architecture: str
    layer_config: Mapping[str, Any]
    weights: Weights
    features: FeatureReading | None
    head_ids: NDArray[np.int32] | None
    verifier: str | None
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @property
    def shares_head(self) -> bool:
        """Whether the head is rows of the verifier's."""
        return "lm_head.weight" not in self.weights

    @property
    def shares_embedding(self) -> bool:
        """Whether the embedding is the verifier's."""
        return "embed_tokens.weight" not in self.weights


def is_speculator(directory: Path) -> bool:
    """Whether a folder's config.json describes a drafter of this kind rather than a model of its own."""
    if not (directory / "config.json").is_file():
        return False
    config = read_json_object(directory / "config.json", _FIX)
    return "speculators_model_type" in config or _is_published(config)


def open_speculator(directory: Path, source: str) -> Speculator:
    """Open a drafter folder. Raises CheckpointError naming the file, what was found and the fix."""
    checkpoint = open_hf_directory(directory, source)
    config, where = checkpoint.config, f"{directory / 'config.json'}"
    architecture = _architecture(config, where)
    published = "speculators_model_type" not in config
    layer_config = _layer_config(config, where, published)
    tensors = {_renamed(name): tensor for name, tensor in checkpoint.weights.items()}
    weights = Weights({name: tensor for name, tensor in tensors.items() if name not in _BUFFERS})
    features = _features(config, where) if architecture == "eagle3" else None
    opened = Speculator(
        source=source,
        path=str(directory),
        architecture=architecture,
        layer_config=layer_config,
        weights=weights,
        features=features,
        head_ids=_head_ids(tensors, config, layer_config, str(directory)),
        verifier=_verifier(config),
        config=config,
        provenance=checkpoint.provenance,
    )
    _check_weights(opened)
    return opened


def default_feature_layers(verifier_layers: int) -> tuple[int, ...]:
    """EAGLE-3's choice for a verifier of that many layers, without repeats where it has few."""
    middle, late = verifier_layers // 2, max(verifier_layers - 3, 0)
    return tuple(sorted({min(2, verifier_layers), middle, late}))


def _is_published(config: Mapping[str, Any]) -> bool:
    names = config.get("architectures")
    return isinstance(names, list) and any(name in _PUBLISHED for name in names)


def _architecture(config: Mapping[str, Any], where: str) -> str:
    if _is_published(config) and "speculators_model_type" not in config:
        return "eagle3"
    name = config.get("speculators_model_type")
    if not isinstance(name, str):
        raise CheckpointError(f"{where}: has no speculators_model_type; {_FIX}")
    if name not in ARCHITECTURES:
        raise CheckpointError(f"{where}: {unknown('speculators_model_type', name, ARCHITECTURES)}")
    return name


def _layer_config(config: Mapping[str, Any], where: str, published: bool) -> Mapping[str, Any]:
    if published:
        return {key: value for key, value in config.items() if key not in _BESIDE_LAYER}
    layer = config.get("transformer_layer_config")
    if not isinstance(layer, Mapping) or not isinstance(layer.get("hidden_size"), int):
        raise CheckpointError(f"{where}: transformer_layer_config is no object with a hidden_size; {_FIX}")
    return layer


def _features(config: Mapping[str, Any], where: str) -> FeatureReading:
    layers, inner = config.get(_LAYERS), config.get("eagle_config")
    if layers is None and isinstance(inner, Mapping):
        layers = inner.get(_LAYERS)
    if layers is not None and not (isinstance(layers, list) and layers and all(type(i) is int for i in layers)):
        raise CheckpointError(f"{where}: {_LAYERS} is {layers!r:.60}, no list of layers; {_FIX}")

    def flag(name: str) -> bool:
        value = config.get(name, False)
        if not isinstance(value, bool):
            raise CheckpointError(f"{where}: {name} is {value!r:.40}; expected true or false")
        return value

    return FeatureReading(None if layers is None else tuple(layers), *(flag(name) for name in _FLAGS))


def _renamed(name: str) -> str:
    """Authors' names in the format's: EAGLE-3's one layer is `layers.0.` there, `midlayer.` where it was published."""
    for prefix in ("midlayer.", "model.layers.0."):
        if name.startswith(prefix):
            return "layers.0." + name.removeprefix(prefix)
    return name.removeprefix("model.")


def _head_ids(
    tensors: Mapping[str, WeightTensor], config: Mapping[str, Any], layer_config: Mapping[str, Any], path: str
) -> NDArray[np.int32] | None:
    """The token of each head row, from the offsets in d2t."""
    rows, vocabulary = config.get("draft_vocab_size"), layer_config.get("vocab_size")
    if "d2t" not in tensors:
        if isinstance(rows, int) and isinstance(vocabulary, int) and rows != vocabulary:
            raise CheckpointError(f"{path}: a head of {rows} rows for {vocabulary} tokens but no d2t that maps them")
        return None
    offsets = tensors["d2t"].numpy()
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or (isinstance(rows, int) and rows != len(offsets)):
        raise CheckpointError(
            f"{path}: d2t is {offsets.dtype} {list(offsets.shape)}, expected whole numbers for {rows} head rows"
        )
    ids = offsets.astype(np.int64) + np.arange(len(offsets))
    if len(ids) < 2 or ids[0] < 0 or not (np.diff(ids) > 0).all():
        raise CheckpointError(f"{path}: d2t maps head rows to tokens that do not ascend; it belongs to another head")
    if isinstance(vocabulary, int) and ids[-1] >= vocabulary:
        raise CheckpointError(f"{path}: d2t maps a head row to token {ids[-1]} of a vocabulary of {vocabulary}")
    return ids.astype(np.int32)


def _verifier(config: Mapping[str, Any]) -> str | None:
    stated: Any = config
    for key in ("speculators_config", "verifier", "name_or_path"):
        stated = stated.get(key) if isinstance(stated, Mapping) else None
    return stated if isinstance(stated, str) else None


def _check_weights(opened: Speculator) -> None:
    """What the rest of the checkpoint implies about each matrix that EAGLE-3 adds, and about the head."""
    hidden = opened.layer_config.get("hidden_size")
    wanted: dict[str, tuple[int | None, int | None]] = {}
    if opened.architecture == "eagle3" and isinstance(hidden, int):
        layers, columns = opened.features.layers if opened.features else None, opened.config.get("target_hidden_size")
        columns = columns if isinstance(columns, int) else hidden
        wanted["fc.weight"] = (hidden, None if layers is None else len(layers) * columns)
        wanted |= {f"layers.0.self_attn.{part}_proj.weight": (None, 2 * hidden) for part in "qkv"}
    if not opened.shares_head:
        wanted["lm_head.weight"] = (None if opened.head_ids is None else len(opened.head_ids), None)
    for name, shape in wanted.items():
        tensor = opened.weights.get(name)
        if tensor is None:
            raise CheckpointError(f"{opened.path}: weight {name!r} is missing; the drafter is incomplete")
        found = tensor.shape
        if len(found) != 2 or any(want is not None and want != have for want, have in zip(shape, found, strict=True)):
            implied = ["any" if size is None else size for size in shape]
            raise CheckpointError(f"{opened.path}: weight {name!r} is {list(found)}, config.json implies {implied}")
