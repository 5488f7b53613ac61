"""What a decoder is, whatever family it comes from: plain data that `decoder` builds a graph from."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RopeSpec:
    """Rotary position embedding over the whole head, rotate-half form.

    inv_freq: f64 `[head_dim / 2]`, scaling applied. magnitude: factor on cos and sin (YaRN's attention factor).
    reach: positions the scaling was made for; 0 without one.
    """

    inv_freq: tuple[float, ...]
    magnitude: float = 1.0
    reach: int = 0

    def tables(self, positions: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines and sines, f32 `[positions, head_dim / 2]`, rounded the way the reference implementation rounds."""
        angles = np.outer(np.arange(positions, dtype=np.float32), np.asarray(self.inv_freq, dtype=np.float32))
        factor = np.float32(self.magnitude)
        return np.cos(angles) * factor, np.sin(angles) * factor


@dataclass(frozen=True)
class AttentionSpec:
    """Grouped-query attention. scale multiplies q k^T; window: positions a token sees back, None for all."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    window_field: str = "sliding_window"

    @property
    def qkv_rows(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim


@dataclass(frozen=True)
class MlpSpec:
    """Gated MLP: `down(silu(gate x) * up x)`."""

    intermediate: int
    bias: bool = False


@dataclass(frozen=True)
class WeightNames:
    """Names in the checkpoint; `{layer}` stands for the layer's number."""

    embedding: str = "model.embed_tokens.weight"
    final_norm: str = "model.norm.weight"
    head: str = "lm_head.weight"
    layer: str = "model.layers.{layer}."
    attention_norm: str = "input_layernorm"
    query: str = "self_attn.q_proj"
    key: str = "self_attn.k_proj"
    value: str = "self_attn.v_proj"
    output: str = "self_attn.o_proj"
    query_norm: str = "self_attn.q_norm"
    key_norm: str = "self_attn.k_norm"
    mlp_norm: str = "post_attention_layernorm"
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"


@dataclass(frozen=True)
class DecoderSpec:
    """A decoder-only transformer: pre-norm residual layers, RMS norms, one head.

    context: positions it was made for (max_position_embeddings). tied_head: the head is the embedding table.
    """

    model_type: str
    layers: int
    hidden: int
    vocab_rows: int
    context: int
    epsilon: float
    attention: AttentionSpec
    mlp: MlpSpec
    rope: RopeSpec
    tied_head: bool
    names: WeightNames = field(default_factory=WeightNames)
