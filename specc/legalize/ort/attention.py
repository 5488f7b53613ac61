"""Cached attention on ONNX Runtime: GroupQueryAttention, which pays for the tokens there are, not for the buffer."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM
from specc.legalize.rewriting import rewrites

MICROSOFT = "com.microsoft"
MIN_ROWS = 2  # GroupQueryAttention takes another path for one row, whose sums differ in the last bits


@rewrites(ATTENTION, on="ort")
def attention(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """Packed q, k, v, the rotation inside the op."""
    qkv, past_key, past_value, position, position_ids, _, cos, sin = node.inputs
    rows = _Rows(body, position_ids, position)
    return _grouped(node, body, rows, [rows.padded(qkv), None, None], past_key, past_value, cos, sin)


@rewrites(ATTENTION_QK_NORM, on="ort")
def attention_qk_norm(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """q, k, v apart, normed head by head before the op rotates them."""
    qkv, past_key, past_value, position, position_ids, _, cos, sin, query_norm, key_norm = node.inputs
    heads, kv_heads, head_dim = (node.attributes[n].as_int() for n in ("heads", "kv_heads", "head_dim"))
    epsilon = node.attributes["epsilon"].as_float()
    rows = _Rows(body, position_ids, position)
    sizes = body.constant([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim])
    q, k, v = body.ops("Split", rows.padded(qkv), sizes, outputs=3, axis=-1)

    def normed(flat: ir.Value, weight: ir.Value) -> ir.Value:
        split = body.op("Reshape", flat, body.constant([0, 0, -1, head_dim]))
        scaled = body.op("SimplifiedLayerNormalization", split, weight, axis=-1, epsilon=epsilon)
        return body.op("Reshape", scaled, body.constant([0, 0, -1]))

    return _grouped(node, body, rows, [normed(q, query_norm), normed(k, key_norm), v], past_key, past_value, cos, sin)


class _Rows:
    """At least two rows for the op whatever is fed: the last one repeated, its cache row overwritten by the next call.

    All of it hangs on values that every layer shares, so that the layers' copies fall together.
    """

    def __init__(self, body: Body, position_ids: ir.Value, position: ir.Value) -> None:
        self._body = body
        self._width = body.op("Shape", position_ids, start=1, end=2)
        self._fed = body.op("Max", self._width, body.constant([MIN_ROWS]))
        last = body.op("Sub", self._width, body.constant([1]))
        count = body.op("Squeeze", self._fed, body.constant([0]))
        self._index = body.op("Min", body.op("Range", body.constant(0), count, body.constant(1)), last)
        self.total = body.op("Cast", body.op("Add", position, self._fed), to=ir.DataType.INT32)
        self.last = body.op("Sub", self.total, body.constant([1], np.int32))

    def padded(self, qkv: ir.Value) -> ir.Value:
        return self._body.op("Gather", qkv, self._index, axis=1)

    def cut(self, y: ir.Value) -> ir.Value:
        return self._body.op("Slice", y, self._body.constant([0]), self._width, self._body.constant([1]))


def _grouped(
    node: ir.Node,
    body: Body,
    rows: _Rows,
    qkv: list[ir.Value | None],
    past_key: ir.Value | None,
    past_value: ir.Value | None,
    cos: ir.Value | None,
    sin: ir.Value | None,
) -> Sequence[ir.Value]:
    dtype = past_key.dtype if past_key is not None else None
    narrow = dtype not in (None, ir.DataType.FLOAT)
    if narrow:
        qkv = [x if x is None else body.op("Cast", x, to=dtype) for x in qkv]
        cos, sin = body.op("Cast", cos, to=dtype), body.op("Cast", sin, to=dtype)
    y, key, value = body.ops(
        "GroupQueryAttention",
        *qkv, past_key, past_value, rows.last, rows.total, cos, sin,
        outputs=3,
        domain=MICROSOFT,
        num_heads=node.attributes["heads"].as_int(),
        kv_num_heads=node.attributes["kv_heads"].as_int(),
        scale=node.attributes["scale"].as_float(),
        do_rotary=1,
    )  # fmt: skip
    if narrow:
        y = body.op("Cast", y, to=ir.DataType.FLOAT)
    return [rows.cut(y), key, value]
