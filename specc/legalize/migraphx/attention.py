"""Cached attention as MIGraphX fuses it: two products with one softmax between, a group of heads folded into rows.

Its GroupQueryAttention is silently wrong for several positions after a past. Here rows of a static buffer are written
by ScatterND, and the `heads / kv_heads` queries that read one key head stand below each other, so that each layer is a
single product with the keys and a single one with the values.

A call marked IN_PLACE becomes a chain of GroupQueryAttention nodes of one position each, which is right, and writes one
row where ScatterND copies the whole buffer.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM, VISIBILITY
from specc.core.inspection import inputs_of, static_shape
from specc.core.topology import CHAIN, TOPOLOGY
from specc.legalize.migraphx.norm import rms_norm
from specc.legalize.rewriting import rewrites
from specc.legalize.row_scatter import scatter_rows

IN_PLACE = "specc.in_place"  # metadata key of an attention call: its cache is to be written in place, row by row
MICROSOFT = "com.microsoft"
_HIDDEN = np.finfo(np.float32).min  # the score of what a row does not see: its exponential is 0


@rewrites(VISIBILITY, on="migraphx")
def visibility(node: ir.Node, body: Body) -> Sequence[ir.Value] | None:
    """Of a chain: row i sees the columns up to position + i. Anything else keeps its own body."""
    position, block, cache = inputs_of(node)
    if block.metadata_props.get(TOPOLOGY) != CHAIN:
        return None
    rows, columns = (np.arange(static_shape(v)[axis]) for v, axis in ((block, 0), (cache, 2)))
    last = body.op("Add", position, body.constant(rows[:, None]))
    seen = body.op("LessOrEqual", body.constant(columns), last)
    return [body.op("Unsqueeze", seen, body.constant([0, 1]))]


@rewrites(ATTENTION, on="migraphx")
@rewrites(ATTENTION_QK_NORM, on="migraphx")
def attention(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """y, key, value; products in the caches' dtype, the softmax in fp32."""
    call = _Call(node, body)
    q, k, v = call.rotated()
    if IN_PLACE in node.metadata_props:
        return call.chained(q, k, v)
    key, value = call.written(k, 0), call.written(v, 1)
    return [call.mixed(q, key, value), key, value]


class _Call:
    """One call of a core attention function. Values have batch, then rows, then heads until they meet a cache."""

    def __init__(self, node: ir.Node, body: Body) -> None:
        self._body = body
        self._qkv, *self._past, self._position, self._position_ids, self._mask = (values := inputs_of(node))[:6]
        self._tables, self._norms = values[6:8], values[8:]
        self._heads, self._kv_heads, self._head_dim = (
            node.attributes[name].as_int() for name in ("heads", "kv_heads", "head_dim")
        )
        self._scale = node.attributes["scale"].as_float()
        self._epsilon = node.attributes["epsilon"].as_float() if self._norms else 0.0
        self._batch, self._width, _ = static_shape(self._qkv)
        self._dtype = self._past[0].dtype or ir.DataType.FLOAT

    def rotated(self) -> list[ir.Value]:
        """q, k, v `[B, S, heads, head_dim]`; q and k normed, where the model does, and rotated together."""
        body, keys = self._body, self._kv_heads
        heads = body.op("Reshape", self._qkv, self._shape(self._width, self._heads + 2 * keys, self._head_dim))
        qk, v = body.ops("Split", heads, body.constant([self._heads + keys, keys]), outputs=2, axis=2)
        if self._norms:
            qk = rms_norm(body, qk, self._norm_weights(), self._epsilon)
        q, k = body.ops("Split", self._rotate(qk), body.constant([self._heads, keys]), outputs=2, axis=2)
        return [q, k, v]

    def written(self, rows: ir.Value, cache: int) -> ir.Value:
        """The cache with k or v of the new rows."""
        turned = self._narrow(self._body.op("Transpose", rows, perm=[0, 2, 1, 3]))
        turned.shape = ir.Shape([self._batch, self._kv_heads, self._width, self._head_dim])
        turned.dtype = self._dtype
        return scatter_rows(self._body, self._past[cache], turned, self._position)

    def mixed(self, q: ir.Value, key: ir.Value, value: ir.Value) -> ir.Value:
        """What each row makes of what it sees, `[B, S, heads * head_dim]`."""
        body, group = self._body, self._heads // self._kv_heads
        split = self._shape(self._width, self._kv_heads, group, self._head_dim)
        turned = body.op("Transpose", body.op("Reshape", q, split), perm=[0, 2, 1, 3, 4])
        folded = body.op("Reshape", turned, self._shape(self._kv_heads, self._width * group, self._head_dim))
        scores = body.op("MatMul", self._narrow(folded), body.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = body.op("Mul", self._widen(scores), body.constant(self._scale, np.float32))
        scores = body.op("Where", self._folded_mask(group), scores, body.constant(_HIDDEN, np.float32))
        shares = self._narrow(body.op("Softmax", scores, axis=-1))
        mixed = self._widen(body.op("MatMul", shares, value))
        unfolded = body.op("Reshape", mixed, self._shape(self._kv_heads, self._width, group, self._head_dim))
        turned = body.op("Transpose", unfolded, perm=[0, 2, 1, 3, 4])
        return body.op("Reshape", turned, self._shape(self._width, self._heads * self._head_dim))

    def chained(self, q: ir.Value, k: ir.Value, v: ir.Value) -> Sequence[ir.Value]:
        """y, key, value of one node a row, each over the caches that the one before it left. Sees what a chain sees."""
        body, caches, made = self._body, list(self._past), []
        queries, keys, values = self._rows(q, self._heads), self._rows(k, self._kv_heads), self._rows(v, self._kv_heads)
        for row, (query, key, value) in enumerate(zip(queries, keys, values, strict=True)):
            before = body.op("Cast", body.op("Add", self._position, body.constant([row])), to=ir.DataType.INT32)
            length = body.op("Add", before, body.constant([1], np.int32))
            y, *caches = body.ops(
                "GroupQueryAttention", query, key, value, *caches, before, length,
                outputs=3, domain=MICROSOFT, num_heads=self._heads, kv_num_heads=self._kv_heads, scale=self._scale,
            )  # fmt: skip
            made.append(y)
            for cache, past in zip(caches, self._past, strict=True):
                cache.shape, cache.type = past.shape and past.shape.copy(), past.type
        y = made[0] if len(made) == 1 else body.op("Concat", *made, axis=1)
        return [self._widen(y), *caches]

    def _rows(self, x: ir.Value, heads: int) -> Sequence[ir.Value]:
        """`[B, S, heads, head_dim]` row by row, each `[B, 1, heads * head_dim]`, in the caches' dtype."""
        columns = heads * self._head_dim
        flat = self._narrow(self._body.op("Reshape", x, self._shape(self._width, columns)))
        sizes = self._body.constant([1] * self._width)
        rows = self._body.ops("Split", flat, sizes, outputs=self._width, axis=1) if self._width > 1 else [flat]
        for row in rows:
            row.shape, row.dtype = ir.Shape([self._batch, 1, columns]), self._dtype
        return rows

    def _rotate(self, heads: ir.Value) -> ir.Value:
        """Rotate-half: the first half of a head against its second."""
        body, half = self._body, self._head_dim // 2
        cos, sin = (
            body.op("Unsqueeze", body.op("Gather", table, self._position_ids, axis=0), body.constant([2]))
            for table in self._tables
        )
        first, second = body.ops("Split", heads, body.constant([half, half]), outputs=2, axis=-1)
        turned_first = body.op("Sub", body.op("Mul", first, cos), body.op("Mul", second, sin))
        turned_second = body.op("Add", body.op("Mul", second, cos), body.op("Mul", first, sin))
        return body.op("Concat", turned_first, turned_second, axis=-1)

    def _norm_weights(self) -> ir.Value:
        """The norm of q for each query head, that of k for each key head, `[heads + kv_heads, head_dim]`."""
        body, counts = self._body, (self._heads, self._kv_heads)
        each = (
            body.op("Expand", weight, body.constant([count, self._head_dim]))
            for weight, count in zip(self._norms, counts, strict=True)
        )
        return body.op("Concat", *each, axis=0)

    def _folded_mask(self, group: int) -> ir.Value:
        """The mask of each row, once for each query of its group; alike in every layer."""
        body, columns = self._body, static_shape(self._mask)[-1]
        if group == 1:
            return self._mask
        apart = body.op("Unsqueeze", self._mask, body.constant([3]))
        repeated = body.op("Expand", apart, self._shape(1, self._width, group, columns))
        return body.op("Reshape", repeated, self._shape(1, self._width * group, columns))

    def _narrow(self, x: ir.Value) -> ir.Value:
        return x if self._dtype == ir.DataType.FLOAT else self._body.op("Cast", x, to=self._dtype)

    def _widen(self, x: ir.Value) -> ir.Value:
        return x if self._dtype == ir.DataType.FLOAT else self._body.op("Cast", x, to=ir.DataType.FLOAT)

    def _shape(self, *sizes: int) -> ir.Value:
        return self._body.constant([self._batch, *sizes])
