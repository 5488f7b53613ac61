"""A model of eight billion weights that exist by shape alone."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.backends.record import CoreModel
from specc.checkpoint.types import Weights
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.layer import layer_weights
from specc.passes.narrow_attention import narrow_attention
from specc.passes.quantize_linears import quantize_linears

VOCABULARY = 128_256
BF16 = np.dtype(ml_dtypes.bfloat16)
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class AbstractTensor:
    """A weight in bf16 that nobody may read."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = BF16

    def numpy(self) -> NDArray[Any]:
        raise AssertionError(f"{self.name} was read")


def eight_billion(cache_rows: int, *, quantised: bool) -> CoreModel:
    """The verifier in core form: linears in 8 bits, or all in bf16; caches in bf16."""
    spec = describe(CONFIG, "8B")
    names, table = spec.names, (spec.vocab_rows, spec.hidden)
    shapes: dict[str, tuple[int, ...]] = {names.embedding: table, names.head: table, names.final_norm: (spec.hidden,)}
    for layer in range(spec.layers):
        shapes |= dict(source for weight in layer_weights(spec, layer) for source in weight.sources)
    weights = Weights({name: AbstractTensor(name, shape) for name, shape in shapes.items()})
    graph = build_decoder(spec, weights, "8B", "verifier", DecoderShape(cache_rows, state=ir.DataType.BFLOAT16))
    if quantised:
        graph = quantize_linears(graph, ("attention", "mlp", "head"), row_scales=True)
    return CoreModel("verifier", narrow_attention(graph), VOCABULARY, cache_rows)
