"""The verifier in torch: many sequences at once, with the states a drafter learns from."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from specc.assembly.sources import ModelSource
from specc.distill.arithmetic import attend, by_head, rms_norm, rope_tables, rotate, split_qkv
from specc.models.layer import layer_weights
from specc.models.spec import DecoderSpec


@dataclass
class Cache:
    """Keys and values of sequences of one length. keys, values: one `[B, kv_heads, rows, head_dim]` a layer."""

    keys: list[Tensor]
    values: list[Tensor]
    length: int = 0

    def repeat(self, sequences: int, rows: int) -> "Cache":
        """The cache of `sequences` copies of the one sequence in this cache, with space for `rows` positions."""
        keys, values = ([_grown(t, sequences, rows) for t in part] for part in (self.keys, self.values))
        return Cache(keys, values, self.length)


@dataclass(frozen=True)
class States:
    """What the verifier computed for B sequences of S tokens.

    last: `[B, S, H]` after the final norm: what the head reads. features: `[B, S, F * H]`, the residual stream before
    the asked layers, side by side.
    """

    last: Tensor
    features: Tensor


class Verifier:
    """A frozen decoder. Matrix products in `dtype`, the residual stream and everything that is summed in fp32."""

    def __init__(self, source: ModelSource, dtype: torch.dtype, device: torch.device) -> None:
        self.spec, self.dtype, self.device = source.spec, dtype, device
        self._source = source
        names = self.spec.names
        self.embedding = self._load([names.embedding]).to(dtype)
        self.head = self.embedding if self.spec.tied_head else self._load([names.head]).to(dtype)
        self.final_norm = self._load([names.final_norm])
        self.layers = [self.layer(number) for number in range(self.spec.layers)]
        self._cos, self._sin = rope_tables(self.spec, device)

    def layer(self, number: int) -> dict[str, Tensor]:
        """Weights of one layer by the names of `specc.models.layer`: matrices in `dtype`, vectors in fp32."""
        loaded = {w.name: self._load([name for name, _ in w.sources]) for w in layer_weights(self.spec, number)}
        return {name: t.to(self.dtype) if t.ndim == 2 else t for name, t in loaded.items()}

    def new_cache(self, sequences: int, rows: int) -> Cache:
        """An empty cache."""
        a = self.spec.attention
        shape = (sequences, a.kv_heads, rows, a.head_dim)
        keys, values = (
            [torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in self.layers] for _ in range(2)
        )
        return Cache(keys, values)

    def cache_bytes(self, rows: int) -> int:
        """Bytes of one sequence's cache of `rows` positions."""
        a = self.spec.attention
        return 2 * len(self.layers) * a.kv_heads * rows * a.head_dim * self.dtype.itemsize

    @torch.inference_mode()
    def forward(self, tokens: Tensor, cache: Cache, feature_layers: Sequence[int] = ()) -> States:
        """Feed tokens i64[B, S] after what `cache` holds, and extend it.

        feature_layers: each from 0 (the embedding) to the number of layers (the last layer's output).
        """
        start, stop = cache.length, cache.length + tokens.shape[1]
        stream = functional.embedding(tokens, self.embedding).float()
        features = []
        for number, weights in enumerate(self.layers):
            if number in feature_layers:
                features.append(stream)
            stream = stream + self._attention(stream, weights, cache.keys[number], cache.values[number], start, stop)
            stream = stream + gated_mlp(self.spec, stream, weights, self.dtype)
        if len(self.layers) in feature_layers:
            features.append(stream)
        cache.length = stop
        last = rms_norm(stream, self.final_norm, self.spec.epsilon)
        return States(last, torch.cat(features, -1) if features else last[..., :0])

    def logits(self, last: Tensor) -> Tensor:
        """fp32 logits of states after the final norm."""
        return functional.linear(last.to(self.dtype), self.head).float()

    def _attention(
        self, stream: Tensor, weights: dict[str, Tensor], keys: Tensor, values: Tensor, start: int, stop: int
    ) -> Tensor:
        a = self.spec.attention
        normed = rms_norm(stream, weights["attention_norm"], self.spec.epsilon).to(self.dtype)
        qkv = biased(functional.linear(normed, weights["qkv"]), weights.get("qkv_bias"))
        query, key, value = split_heads(self.spec, qkv, weights)
        cos, sin = self._cos[start:stop], self._sin[start:stop]
        keys[:, :, start:stop] = rotate(key, cos, sin)
        values[:, :, start:stop] = value
        mixed = attend(rotate(query, cos, sin), keys[:, :, :stop], values[:, :, :stop], a.scale, a.window)
        return biased(functional.linear(mixed, weights["output"]), weights.get("output_bias")).float()

    def _load(self, names: Sequence[str]) -> Tensor:
        arrays = [self._source.checkpoint.weights[name].numpy().astype("float32") for name in names]
        return torch.cat([torch.from_numpy(array) for array in arrays]).to(self.device)


def split_heads(spec: DecoderSpec, qkv: Tensor, weights: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value `[B, heads, S, head_dim]` of packed rows, normed per head where the family does so."""
    query, key, value = (by_head(part, spec.attention.head_dim) for part in split_qkv(spec, qkv))
    if spec.attention.qk_norm:
        query = rms_norm(query.float(), weights["query_norm"], spec.epsilon).to(qkv.dtype)
        key = rms_norm(key.float(), weights["key_norm"], spec.epsilon).to(qkv.dtype)
    return query, key, value


def gated_mlp(spec: DecoderSpec, stream: Tensor, weights: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    """`down(silu(gate x) * up x)` of the normed stream, fp32."""
    normed = rms_norm(stream, weights["mlp_norm"], spec.epsilon).to(dtype)
    gate, up = biased(functional.linear(normed, weights["gate_up"]), weights.get("gate_up_bias")).chunk(2, -1)
    return biased(functional.linear(functional.silu(gate) * up, weights["down"]), weights.get("down_bias")).float()


def biased(x: Tensor, bias: Tensor | None) -> Tensor:
    """`x`, plus a bias if there is one."""
    return x if bias is None else x + bias.to(x.dtype)


def _grown(tensor: Tensor, sequences: int, rows: int) -> Tensor:
    grown = tensor.new_zeros(sequences, tensor.shape[1], rows, tensor.shape[3])
    grown[:, :, : tensor.shape[2]] = tensor
    return grown
