"""What the core graphs of all decoders have in common: controls, caches, a final norm and a head."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from specc.core.building import Body, model, value
from specc.core.functions.attention import attention, attention_qk_norm, visibility
from specc.core.functions.embedding import embed
from specc.core.functions.linear import linear
from specc.core.initializers import initializer
from specc.core.inspection import static_shape
from specc.core.state_names import PAST, left_by
from specc.models.layer import LayerWeight
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


@dataclass(frozen=True)
class Tables:
    """embedding `[V, H]` and head `[R, H]` of a decoder: the same value where they are tied."""

    embedding: ir.Value
    head: ir.Value


def load_tables(spec: DecoderSpec, loader: WeightLoader) -> Tables:
    """The tables of a checkpoint. Raises CheckpointError when one is missing or misshapen."""
    names, shape = spec.names, (spec.vocab_rows, spec.hidden)
    embedding = loader.load("embedding", "embedding", [(names.embedding, shape)])
    return Tables(embedding, embedding if spec.tied_head else loader.load("head", "head", [(names.head, shape)]))


class StepGraph:
    """A core graph in the making.

    body: where nodes are recorded. tokens i64[B, S], position i64[B], rows i64[R]: control inputs; depths i64[S] and
    block bool[S, S] (the topology) serve the layers.
    """

    def __init__(self, spec: DecoderSpec, loader: WeightLoader, role: str, shape: DecoderShape, tables: Tables) -> None:
        self.body, self.shape = Body(), shape
        self.tokens = value("tokens", [shape.batch, shape.width], I64)
        self.position = value("position", [shape.batch], I64)
        self.rows = value("rows", [shape.rows], I64)
        self._depths = value("depths", [shape.width], I64)
        self._block = value("block", [shape.width, shape.width], BOOL)
        self._spec, self._loader, self._role, self._tables = spec, loader, role, tables
        self._past: list[ir.Value] = []
        self._present: list[ir.Value] = []
        self._shared: list[ir.Value] = []  # what every layer takes: position, position ids, mask, rope tables
        norms = attention_qk_norm() if spec.attention.qk_norm else attention()
        self._functions = {f.name: f for f in (embed(), linear(), visibility(), norms)}
        self._initializers = {str(v.name): v for v in (tables.embedding, tables.head)}

    def embedded(self) -> ir.Value:
        """Embeddings of the tokens, f32[B, S, H]."""
        (hidden,) = self.body.call(embed(), self._tables.embedding, self.tokens)
        return hidden

    def weight(
        self, name: str, part: str, sources: Sequence[tuple[str, tuple[int, ...]]], loader: WeightLoader | None = None
    ) -> ir.Value:
        """An initializer from the model's checkpoint, or from another `loader`'s."""
        loaded = (loader or self._loader).load(name, part, sources)
        self._initializers[str(loaded.name)] = loaded
        return loaded

    def state(self, name: str, dims: Sequence[int], dtype: ir.DataType) -> ir.Value:
        """A state input `past.{name}`."""
        past = value(f"{PAST}{name}", dims, dtype)
        self._past.append(past)
        return past

    def leave(self, past: ir.Value, present: ir.Value) -> None:
        """Make `present` the output that goes with the state input `past`."""
        present.name = left_by(str(past.name))
        present.shape, present.type = past.shape, past.type
        self._present.append(present)

    def call(self, function: ir.Function, *inputs: ir.Value) -> ir.Value:
        """Record a call of a function with one output, and make it a function of the model."""
        self._functions[function.name] = function
        (output,) = self.body.call(function, *inputs)
        return output

    def layer(self, function: ir.Function, number: int, weights: Iterable[LayerWeight], *streams: ir.Value) -> ir.Value:
        """Record layer `number`: what it makes of `streams`, f32[B, S, H]. Its caches become state."""
        self._functions[function.name] = function
        a, shape = self._spec.attention, self.shape
        dims = [shape.batch, a.kv_heads, shape.cache_rows, a.head_dim]
        caches = [self.state(f"{number}.{part}", dims, shape.state) for part in ("key", "value")]
        loaded = [self.weight(f"layers.{number}.{w.name}", w.part, w.sources) for w in weights]
        hidden, *present = self.body.call(function, *streams, *caches, *self._shared_inputs(caches[0]), *loaded)
        for past, left in zip(caches, present, strict=True):
            self.leave(past, left)
        return hidden

    def asked(self, hidden: ir.Value) -> ir.Value:
        """The rows whose logits were asked for, f32[B, R, H]."""
        return self.body.op("Gather", hidden, self.rows, axis=1)

    def normed(self, hidden: ir.Value) -> ir.Value:
        """The final norm."""
        norm = self.weight("final_norm", "norm", [(self._spec.names.final_norm, (self._spec.hidden,))])
        return self.body.op("RMSNormalization", hidden, norm, axis=-1, epsilon=self._spec.epsilon)

    def model(self, normed: ir.Value) -> ir.Model:
        """The finished graph; `normed` f32[B, R, H] goes to the head."""
        shape, head = self.shape, self._tables.head
        (logits,) = self.body.call(linear(), normed, head)
        logits.name, logits.dtype = "logits", F32
        logits.shape = ir.Shape([shape.batch, shape.rows, static_shape(head)[0]])
        controls = [self.tokens, self.position, self.rows, self._depths, self._block]
        return model(
            self._role,
            [*controls, *self._past],
            [logits, *self._present],
            self.body,
            initializers=self._initializers.values(),
            functions=self._functions.values(),
        )

    def _shared_inputs(self, cache: ir.Value) -> list[ir.Value]:
        if not self._shared:
            body, spec, rows = self.body, self._spec, self.shape.cache_rows
            position_ids = body.op("Add", body.op("Unsqueeze", self.position, body.constant([1])), self._depths)
            (mask,) = body.call(visibility(), self.position, self._block, cache)
            tables = [
                initializer(f"{self._loader.prefix}rope_{name}.{rows}", "rope", table)
                for name, table in zip(("cos", "sin"), spec.rope.tables(rows), strict=True)
            ]
            self._initializers |= {str(table.name): table for table in tables}
            self._shared = [self.position, position_ids, mask, *tables]
        return self._shared
