"""Verifiers and drafters of well-known shapes whose weights nobody has: drawn on the device, never in a file."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir

from specc.backends.record import CoreModel
from specc.backends.xla.layout import Layout, state_stacks
from specc.backends.xla.loop import looped
from specc.backends.xla.machine import Machine
from specc.backends.xla.program import FlatProgram, Owned, flat_program, step_program
from specc.checkpoint.types import Weights
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.layer import layer_weights
from specc.passes.fuse_round import DRAFTER, VERIFIER, fuse_round
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from tests.backends.xla.abstract_model import AbstractTensor

VOCABULARY = 128_256


def config(layers: int, hidden: int, inner: int, heads: int, kv_heads: int, *, tied: bool, vocabulary: int) -> Any:
    return {
        "model_type": "llama", "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": inner,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocabulary,
        "max_position_embeddings": 8192, "tie_word_embeddings": tied,
    }  # fmt: skip


PAIRS = {
    "8B/0.5B": (
        config(32, 4096, 14336, 32, 8, tied=False, vocabulary=VOCABULARY),
        config(24, 896, 4864, 14, 2, tied=True, vocabulary=VOCABULARY),
    ),
    "1B/135M": (
        config(16, 2048, 8192, 32, 8, tied=True, vocabulary=VOCABULARY),
        config(30, 576, 1536, 9, 3, tied=True, vocabulary=VOCABULARY),
    ),
}
TINY = {
    "tiny": (
        config(2, 64, 96, 4, 2, tied=False, vocabulary=61),
        config(1, 32, 48, 2, 1, tied=True, vocabulary=61),
    )
}


@dataclass
class Pair:
    """Two models in core form, in bf16, for one machine."""

    verifier: CoreModel
    drafter: CoreModel
    layout: Layout
    machine: Machine

    @classmethod
    def of(cls, shapes: tuple[Any, Any], machine: Machine, cache_rows: int) -> "Pair":
        cores = [core(*pair, machine, cache_rows) for pair in zip(("verifier", "drafter"), shapes, strict=True)]
        return cls(*cores, Layout(cores), machine)

    def step(self, width: int) -> FlatProgram:
        """The verifier fed `width` tokens, all their logits given."""
        return step_program(self.verifier, self.layout, self.machine, width, width)

    def round(self, gamma: int, *, limited: bool = False) -> FlatProgram:
        graph = fuse_round(self.verifier.graph, self.drafter.graph, gamma, limited=limited)
        owned = [Owned(tuple(state_stacks(self.verifier)), VERIFIER), Owned(tuple(state_stacks(self.drafter)), DRAFTER)]
        return flat_program(graph, owned, self.layout, self.machine)

    def loop(self, gamma: int) -> FlatProgram:
        rows = self.verifier.cache_rows
        return looped(self.round(gamma, limited=True), gamma, rows, self.verifier.head_rows)


def core(role: str, shape: Any, machine: Machine, cache_rows: int) -> CoreModel:
    spec = describe(shape, role)
    names = spec.names
    shapes: dict[str, tuple[int, ...]] = {
        names.embedding: (spec.vocab_rows, spec.hidden),
        names.final_norm: (spec.hidden,),
    }
    if not spec.tied_head:
        shapes[names.head] = (spec.vocab_rows, spec.hidden)
    for layer in range(spec.layers):
        shapes |= dict(source for weight in layer_weights(spec, layer) for source in weight.sources)
    weights = Weights({name: AbstractTensor(name, size) for name, size in shapes.items()})
    graph = build_decoder(spec, weights, role, role, DecoderShape(cache_rows, state=ir.DataType.BFLOAT16))
    made = CoreModel(role, graph, spec.vocab_rows, cache_rows)
    if not machine.matrix_dtypes:
        return made
    return replace(made, graph=narrow_attention(narrow_linears(graph)))


def drawn(specs: Any, known: dict[Any, Any]) -> list[jax.Array]:
    """Weights for `specs`, each made once: small normal numbers, so that no law is a one-hot."""
    for number, spec in enumerate(specs):
        if spec not in known:
            key = jax.random.key(len(known) * 1000 + number)
            known[spec] = _normal(key, spec.shape, jnp.dtype(spec.dtype).name)
    return [known[spec] for spec in specs]


def _normal(key: Any, shape: tuple[int, ...], dtype: str) -> jax.Array:
    """Layer by layer, so that what is drawn from never takes more than one layer's memory."""
    if jnp.dtype(dtype).kind in "iu":
        return jnp.zeros(shape, dtype)
    rows = [0.02 * jax.random.normal(k, shape[1:], jnp.bfloat16) for k in jax.random.split(key, shape[0])]
    return jnp.stack(rows).astype(dtype)
