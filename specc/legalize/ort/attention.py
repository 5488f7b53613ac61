"""Cached attention on ONNX Runtime: GroupQueryAttention, which pays for the tokens there are, not for the buffer."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM, VISIBILITY
from specc.core.inspection import inputs_of, static_shape
from specc.core.topology import CHAIN, TOPOLOGY
from specc.errors import LegalizeError
from specc.legalize.rewriting import rewrites

MICROSOFT = "com.microsoft"
HEAD_MULTIPLE = 8  # head sizes GroupQueryAttention takes
ROTATED_HEAD_MULTIPLE = 16  # head sizes whose rotation GroupQueryAttention does itself
MIN_ROWS = 2  # GroupQueryAttention takes another path for one row, whose sums differ in the last bits


@rewrites(VISIBILITY, on="ort-cuda")
@rewrites(VISIBILITY, on="ort")
def visibility(node: ir.Node, body: Body) -> None:
    """Left alone, to go once nothing reads it: GroupQueryAttention takes no mask and sees what a chain sees."""
    block = inputs_of(node)[1]
    if block.metadata_props.get(TOPOLOGY) != CHAIN:
        raise LegalizeError(
            f"ort: GroupQueryAttention serves chains only, and '{block.name}' is not a baked chain; "
            "add a form with attention_bias to specc/legalize/ort/attention.py"
        )


@rewrites(ATTENTION, on="ort")
def attention(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """Packed q, k, v, the rotation inside the op where the op has it for this head size."""
    return _packed(_Call(node, body, _PaddedRows))


@rewrites(ATTENTION, on="ort-cuda")
def attention_on_cuda(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The same; the CUDA kernels take a single row as it is."""
    return _packed(_Call(node, body, _Rows))


@rewrites(ATTENTION_QK_NORM, on="ort")
def attention_qk_norm(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """q, k, v apart, q and k normed head by head before they are rotated."""
    return _normed(_Call(node, body, _PaddedRows))


@rewrites(ATTENTION_QK_NORM, on="ort-cuda")
def attention_qk_norm_on_cuda(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The same; the CUDA kernels take a single row as it is."""
    return _normed(_Call(node, body, _Rows))


def _packed(call: "_Call") -> Sequence[ir.Value]:
    if call.rotates_inside:
        return call.grouped([call.rows.padded(call.qkv), None, None])
    return call.grouped(call.rotated(call.split()))


def _normed(call: "_Call") -> Sequence[ir.Value]:
    normed = call.normed()
    return call.grouped(normed if call.rotates_inside else call.rotated(normed))


class _Call:
    """One call of a core attention function and what GroupQueryAttention makes of it. rows: of what it is fed."""

    def __init__(self, node: ir.Node, body: Body, rows: "type[_Rows]") -> None:
        self._node, self._body = node, body
        values = inputs_of(node)
        self.qkv, self._past_key, self._past_value, position, self._position_ids, _, self._cos, self._sin = values[:8]
        self.rows = rows(body, self._position_ids, position)
        self._heads, self._kv_heads, self._head_dim = (
            node.attributes[name].as_int() for name in ("heads", "kv_heads", "head_dim")
        )
        if self._head_dim % HEAD_MULTIPLE:
            raise LegalizeError(
                f"ort: GroupQueryAttention takes head sizes that are multiples of {HEAD_MULTIPLE}, and the model's is "
                f"{self._head_dim}; add a form with the standard Attention op to specc/legalize/ort/attention.py"
            )

    @property
    def rotates_inside(self) -> bool:
        """Not in front of a narrow cache: the op would rotate what is rounded already."""
        return self._head_dim % ROTATED_HEAD_MULTIPLE == 0 and self._past_key.dtype in (None, ir.DataType.FLOAT)

    def split(self) -> list[ir.Value]:
        """Flat q, k and v `[B, rows, heads * head_dim]`."""
        counts = [self._heads, self._kv_heads, self._kv_heads]
        sizes = self._body.constant([count * self._head_dim for count in counts])
        return list(self._body.ops("Split", self.rows.padded(self.qkv), sizes, outputs=3, axis=-1))

    def normed(self) -> list[ir.Value]:
        """The same, with an RMS norm over each head of q and k."""
        q, k, v = self.split()
        query_norm, key_norm = inputs_of(self._node)[-2:]
        return [self._normed(q, query_norm), self._normed(k, key_norm), v]

    def _normed(self, flat: ir.Value, weight: ir.Value) -> ir.Value:
        body, epsilon = self._body, self._node.attributes["epsilon"].as_float()
        heads = body.op("Reshape", flat, body.constant([0, 0, -1, self._head_dim]))
        scaled = body.op("SimplifiedLayerNormalization", heads, weight, axis=-1, epsilon=epsilon)
        return body.op("Reshape", scaled, body.constant([0, 0, -1]))

    def rotated(self, qkv: Sequence[ir.Value]) -> list[ir.Value]:
        """The same, with q and k rotated outside the op."""
        q, k, v = qkv
        positions = self.rows.padded(self._position_ids)
        q, k = (
            self._body.op("RotaryEmbedding", x, self._cos, self._sin, positions, num_heads=heads)
            for x, heads in ((q, self._heads), (k, self._kv_heads))
        )
        return [q, k, v]

    def grouped(self, qkv: Sequence[ir.Value | None]) -> Sequence[ir.Value]:
        """The op on padded q, k, v: y, key, value."""
        body, dtype = self._body, self._past_key.dtype or ir.DataType.FLOAT
        if dtype != ir.DataType.FLOAT:
            qkv = [x if x is None else body.op("Cast", x, to=dtype) for x in qkv]
        tables = [self._cos, self._sin] if self.rotates_inside else []
        y, key, value = body.ops(
            "GroupQueryAttention",
            *qkv, self._past_key, self._past_value, self.rows.last, self.rows.total, *tables,
            outputs=3,
            domain=MICROSOFT,
            num_heads=self._heads,
            kv_num_heads=self._kv_heads,
            scale=self._node.attributes["scale"].as_float(),
            do_rotary=int(self.rotates_inside),
        )  # fmt: skip
        for present, past in ((key, self._past_key), (value, self._past_value)):
            present.shape, present.type = past.shape and past.shape.copy(), ir.TensorType(dtype)
        if dtype != ir.DataType.FLOAT:
            y = body.op("Cast", y, to=ir.DataType.FLOAT)
        return [self.rows.cut(y), key, value]


class _Rows:
    """The rows that the op is fed, and how many keys there are then.

    All of it hangs on values that every layer shares, so that the layers' copies fall together.
    """

    def __init__(self, body: Body, position_ids: ir.Value, position: ir.Value) -> None:
        if position.shape is not None and static_shape(position) != (1,):
            raise LegalizeError(
                f"ort: GroupQueryAttention takes one sequence at a time, and the batch is {position.shape}; "
                "add a form with one call per row to specc/legalize/ort/attention.py"
            )
        self._body = body
        self._width = body.op("Shape", position_ids, start=1, end=2)
        self._fed = self._count()
        self.total = body.op("Cast", body.op("Add", position, self._fed), to=ir.DataType.INT32)
        self.last = body.op("Sub", self.total, body.constant([1], np.int32))

    def _count(self) -> ir.Value:
        return self._width

    def padded(self, qkv: ir.Value) -> ir.Value:
        return qkv

    def cut(self, y: ir.Value) -> ir.Value:
        return y


class _PaddedRows(_Rows):
    """At least two rows: a single one is fed twice, and its spare cache row overwritten by the next call."""

    def __init__(self, body: Body, position_ids: ir.Value, position: ir.Value) -> None:
        super().__init__(body, position_ids, position)
        last = body.op("Sub", self._width, body.constant([1]))
        count = body.op("Squeeze", self._fed, body.constant([0]))
        self._index = body.op("Min", body.op("Range", body.constant(0), count, body.constant(1)), last)

    def _count(self) -> ir.Value:
        return self._body.op("Max", self._width, self._body.constant([MIN_ROWS]))

    def padded(self, qkv: ir.Value) -> ir.Value:
        return self._body.op("Gather", qkv, self._index, axis=1)

    def cut(self, y: ir.Value) -> ir.Value:
        return self._body.op("Slice", y, self._body.constant([0]), self._width, self._body.constant([1]))
