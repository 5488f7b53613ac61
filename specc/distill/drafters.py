"""The two drafters that can be trained. Both end in a norm, and a head that is rows of the verifier's own.

At position i a drafter sees token x_i and what came before, and predicts the verifier's law of x_{i+1}.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from specc.distill.arithmetic import attend, by_head, causal_mask, rms_norm, rope_tables, rotate, split_qkv
from specc.distill.verifier import Verifier
from specc.models.spec import DecoderSpec

DECODER_LAYERS = 1

_START_SCALE = 0.3
"""Random states under the verifier's own norm would start with laws far sharper than any it has."""


class Drafter(nn.Module):
    """first: the first position with a prediction. steps: how deep rollouts go, None for as deep as asked."""

    first: int
    steps: int | None

    def __init__(self, verifier: Verifier) -> None:
        super().__init__()
        self.spec: DecoderSpec = replace(verifier.spec, tied_head=False)
        self.dtype = verifier.dtype
        self._cos, self._sin = rope_tables(verifier.spec, verifier.device)
        self._embedding = verifier.embedding
        self.norm = nn.Parameter(_START_SCALE * verifier.final_norm)

    def rollout(self, tokens: Tensor, features: Tensor, steps: int) -> Iterator[Tensor]:
        """States `[B, N, H]` the head reads, one for each rollout step.

        tokens i64[B, N]; features `[B, N, F * H]`. In step k, position i stands for the (k+1)-th token of a round that
        began k positions earlier: true features up to there, the drafter's own since; tokens are the verifier's, as
        those of an accepted draft are.
        """
        raise NotImplementedError

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """`x weight^T` in the product's dtype, returned as fp32."""
        return functional.linear(x.to(self.dtype), weight.to(self.dtype)).float()

    def embedded(self, tokens: Tensor) -> Tensor:
        """fp32 rows of the verifier's embedding."""
        return functional.embedding(tokens, self._embedding).float()

    def gated(self, layer: "Layer", stream: Tensor) -> Tensor:
        """The gated MLP of a layer."""
        gate, up = self.product(rms_norm(stream, layer.mlp_norm, self.spec.epsilon), layer.gate_up).chunk(2, -1)
        return self.product(functional.silu(gate) * up, layer.down)

    def rotated(self, rows: Tensor) -> Tensor:
        """Rotary embedding by the positions 0..N-1."""
        width = rows.shape[2]
        return rotate(rows, self._cos[:width], self._sin[:width])


class Layer(nn.Module):
    """Weights of one Llama layer whose q, k and v read `columns` columns.

    Queries start equal to their keys: a position first attends to itself, whose token says most, and learns to look
    around from there. Independent random ones would start by averaging over everything.
    """

    def __init__(self, spec: DecoderSpec, columns: int) -> None:
        super().__init__()
        a, hidden, inner = spec.attention, spec.hidden, spec.mlp.intermediate
        self.input_norm = nn.Parameter(torch.ones(hidden))
        self.qkv = _matrix(a.qkv_rows, columns)
        self.output = _matrix(hidden, a.heads * a.head_dim)
        self.mlp_norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = _matrix(2 * inner, hidden)
        self.down = _matrix(hidden, inner)
        with torch.no_grad():
            query, key, _ = split_qkv(spec, self.qkv, 0)
            keys = key.reshape(a.kv_heads, a.head_dim, columns)
            query.copy_(keys.repeat_interleave(a.heads // a.kv_heads, 0).flatten(0, 1))


class FeatureDrafter(Drafter):
    """One decoder layer over the verifier's features and the embedding of the token after them (EAGLE-3).

    g = fc(concat of normed features); the layer reads [norm(embedding of x_i); norm(g_{i-1})] and its output is the
    next step's g. The residual starts at the normed g.
    """

    first = 1
    steps = None

    def __init__(self, verifier: Verifier, features: int) -> None:
        super().__init__(verifier)
        hidden = self.spec.hidden
        self.fc_norm = nn.Parameter(torch.ones(features * hidden))
        self.fc = _matrix(hidden, features * hidden)
        self.hidden_norm = nn.Parameter(torch.ones(hidden))
        self.layers = nn.ModuleList([Layer(self.spec, 2 * hidden)])
        self.to(verifier.device)

    def rollout(self, tokens: Tensor, features: Tensor, steps: int) -> Iterator[Tensor]:
        epsilon, hidden, layer = self.spec.epsilon, self.spec.hidden, self.layers[0]
        assert isinstance(layer, Layer)
        normed = rms_norm(features[:, :-1].float().reshape(*features[:, :-1].shape[:2], -1, hidden), None, epsilon)
        state = self.product(normed.flatten(-2) * self.fc_norm, self.fc)
        embedded = rms_norm(self.embedded(tokens[:, 1:]), layer.input_norm, epsilon)
        by_token = self.product(embedded, layer.qkv[:, :hidden])
        attention = RolloutAttention(self)
        for step in range(steps):
            residual = rms_norm(state, self.hidden_norm, epsilon)
            mixed = attention.step(by_token + self.product(residual, layer.qkv[:, hidden:]))
            stream = residual + self.product(mixed, layer.output)
            state = stream + self.gated(layer, stream)
            yield functional.pad(rms_norm(state, self.norm, epsilon), (0, 0, 1, 0))
            if step + 1 < steps:
                state = functional.pad(state[:, :-1], (0, 0, 1, 0))


class DecoderDrafter(Drafter):
    """A small decoder of its own over the verifier's embedding; reads tokens only, so a rollout has one step."""

    first = 0
    steps = 1

    def __init__(self, verifier: Verifier) -> None:
        super().__init__(verifier)
        self.layers = nn.ModuleList(Layer(self.spec, self.spec.hidden) for _ in range(DECODER_LAYERS))
        self.to(verifier.device)

    def rollout(self, tokens: Tensor, features: Tensor, steps: int) -> Iterator[Tensor]:
        a, epsilon = self.spec.attention, self.spec.epsilon
        stream = self.embedded(tokens)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            rows = self.product(rms_norm(stream, layer.input_norm, epsilon), layer.qkv)
            query, key, value = (by_head(part, a.head_dim) for part in split_qkv(self.spec, rows))
            mixed = attend(self.rotated(query), self.rotated(key), value, a.scale)
            stream = stream + self.product(mixed, layer.output)
            stream = stream + self.gated(layer, stream)
        yield rms_norm(stream, self.norm, epsilon)


class RolloutAttention:
    """Attention of a rollout: in step k, position i sees step 0's keys up to i - k and step m's key at i - k + m."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter, self._spec = drafter, drafter.spec.attention
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def step(self, qkv: Tensor) -> Tensor:
        """Mix `[B, N, heads * head_dim]` of the next step's packed rows `[B, N, qkv_rows]`."""
        a, drafter = self._spec, self._drafter
        query, key, value = (by_head(part, a.head_dim) for part in split_qkv(drafter.spec, qkv))
        self._keys.append(drafter.rotated(key))
        self._values.append(value)
        rotated = drafter.rotated(query)
        grouped = rotated.reshape(len(rotated), a.kv_heads, -1, *rotated.shape[2:])
        depth = len(self._keys) - 1
        width = qkv.shape[1]
        hidden = ~causal_mask(width, width, None, qkv.device).roll(depth, 0)
        hidden[:depth] = True
        scores = (grouped @ self._keys[0][:, :, None].transpose(-1, -2)).masked_fill(hidden, -torch.inf)
        own = [(grouped * self._moved(self._keys[m], depth - m)).sum(-1, keepdim=True) for m in range(1, depth + 1)]
        law = torch.softmax(torch.cat([scores, *own], -1) * a.scale, -1)
        mixed = law[..., :width] @ self._values[0][:, :, None]
        for m in range(1, depth + 1):
            mixed = mixed + law[..., width + m - 1, None] * self._moved(self._values[m], depth - m)
        return mixed.flatten(1, 2).transpose(1, 2).flatten(-2)

    @staticmethod
    def _moved(rows: Tensor, by: int) -> Tensor:
        """Rows `[B, kv_heads, 1, N, head_dim]` that many positions later."""
        return functional.pad(rows[:, :, None], (0, 0, by, 0))[..., : rows.shape[2], :]


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5)
