"""A decoder as a core graph: a pure function of tokens, position and caches."""

from dataclasses import dataclass

import onnx_ir as ir

from specc.checkpoint.types import Weights
from specc.core.building import Body, model, value
from specc.core.functions.attention import attention, attention_qk_norm, visibility
from specc.core.functions.embedding import embed
from specc.core.functions.linear import linear
from specc.core.initializers import initializer
from specc.models.layer import layer_function, layer_weights
from specc.models.spec import DecoderSpec
from specc.models.weights import WeightLoader

I64, F32, BOOL = ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.BOOL


@dataclass(frozen=True)
class DecoderShape:
    """The sizes a decoder's graph is built for.

    cache_rows: rows of each cache (context and slack). width, rows: tokens fed and logits asked for; a name leaves it
    open. state: dtype of the caches. batch: sequences, each at a position of its own.
    """

    cache_rows: int
    width: int | str = "S"
    rows: int | str = "R"
    state: ir.DataType = ir.DataType.FLOAT
    batch: int = 1


def build_decoder(
    spec: DecoderSpec, weights: Weights, source: str, role: str, shape: DecoderShape, weights_of: str | None = None
) -> ir.Model:
    """The core graph of one decoder.

    Inputs: tokens i64[B, S], position i64[B] (cache row of the first token), rows i64[R] (which of the S tokens'
    logits), depths i64[S] and block bool[S, S] (the topology, see core.topology), past.{i}.key and past.{i}.value
    [B, kv_heads, cache_rows, head_dim] of the state's dtype. Outputs: logits f32[B, R, V], present.{i}.key and .value.
    role: "verifier" or the drafter's key; prefixes the layer function's name and the weights'.
    weights_of: the role whose weights these are, if another's (a slice names them as the verifier does).
    Raises CheckpointError when a weight is missing or misshapen.
    """
    owner = weights_of or role
    loader = WeightLoader(weights, source, f"{owner}.")
    names = spec.names
    table = loader.load("embedding", "embedding", [(names.embedding, (spec.vocab_rows, spec.hidden))])
    head = table if spec.tied_head else loader.load("head", "head", [(names.head, (spec.vocab_rows, spec.hidden))])
    norm = loader.load("final_norm", "norm", [(names.final_norm, (spec.hidden,))])
    cos, sin = (
        initializer(f"{owner}.rope_{name}.{shape.cache_rows}", "rope", t)
        for name, t in zip(("cos", "sin"), spec.rope.tables(shape.cache_rows), strict=True)
    )
    tokens = value("tokens", [shape.batch, shape.width], I64)
    position, rows = value("position", [shape.batch], I64), value("rows", [shape.rows], I64)
    depths, block = value("depths", [shape.width], I64), value("block", [shape.width, shape.width], BOOL)

    body = Body()
    (hidden,) = body.call(embed(), table, tokens)
    stack = _Stack(body, spec, loader, role, shape)
    hidden = stack.run(hidden, position, depths, block, cos, sin)
    asked = body.op("Gather", hidden, rows, axis=1)
    normed = body.op("RMSNormalization", asked, norm, axis=-1, epsilon=spec.epsilon)
    (logits,) = body.call(linear(), normed, head)
    logits.name, logits.shape, logits.dtype = "logits", ir.Shape([shape.batch, shape.rows, spec.vocab_rows]), F32
    return model(
        role,
        [tokens, position, rows, depths, block, *stack.past],
        [logits, *stack.present],
        body,
        initializers=[table, *stack.initializers, norm, *([] if spec.tied_head else [head]), *stack.tables],
        functions=[embed(), linear(), visibility(), _attention_of(spec), *stack.functions],
    )


class _Stack:
    """The layers: their calls, weights and caches."""

    def __init__(self, body: Body, spec: DecoderSpec, loader: WeightLoader, role: str, shape: DecoderShape) -> None:
        self._body, self._spec, self._loader, self._shape = body, spec, loader, shape
        self._layer = layer_function(spec, role)
        self.functions = [self._layer] if spec.layers else []
        self.past: list[ir.Value] = []
        self.present: list[ir.Value] = []
        self.initializers: list[ir.Value] = []
        self.tables: list[ir.Value] = []

    def run(
        self, hidden: ir.Value, position: ir.Value, depths: ir.Value, block: ir.Value, cos: ir.Value, sin: ir.Value
    ) -> ir.Value:
        if not self._spec.layers:
            return hidden
        body = self._body
        self.tables = [cos, sin]
        past = [[self._cache("past", layer, part) for part in ("key", "value")] for layer in range(self._spec.layers)]
        position_ids = body.op("Add", body.op("Unsqueeze", position, body.constant([1])), depths)
        (mask,) = body.call(visibility(), position, block, past[0][0])
        for layer, caches in enumerate(past):
            weights = [
                self._loader.load(f"layers.{layer}.{w.name}", w.part, w.sources)
                for w in layer_weights(self._spec, layer)
            ]
            hidden, *present = body.call(self._layer, hidden, *caches, position, position_ids, mask, cos, sin, *weights)
            self.initializers += weights
            self.past += caches
            self.present += [self._named(v, layer, part) for v, part in zip(present, ("key", "value"), strict=True)]
        return hidden

    def _cache(self, kind: str, layer: int, part: str) -> ir.Value:
        a, shape = self._spec.attention, self._shape
        return value(f"{kind}.{layer}.{part}", [shape.batch, a.kv_heads, shape.cache_rows, a.head_dim], shape.state)

    def _named(self, present: ir.Value, layer: int, part: str) -> ir.Value:
        like = self._cache("present", layer, part)
        present.name, present.shape, present.type = like.name, like.shape, like.type
        return present


def _attention_of(spec: DecoderSpec) -> ir.Function:
    return attention_qk_norm() if spec.attention.qk_norm else attention()
