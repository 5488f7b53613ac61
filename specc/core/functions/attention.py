"""Cached attention over packed q, k, v, and the mask that says which cache rows a token sees."""

from functools import cache

import onnx_ir as ir

from specc.core.building import Body, function, reference, value

ATTENTION = "attention"
ATTENTION_QK_NORM = "attention_qk_norm"
VISIBILITY = "visibility"

_INT, _FLOAT = ir.AttributeType.INT, ir.AttributeType.FLOAT


@cache
def visibility() -> ir.Function:
    """`visibility(position i64[B], block bool[S, S], cache[B, G, C, D]) -> mask bool[B, 1, S, C]`.

    Token i sees the cache rows before `position`, and of the rows written now those j with block[i, j].
    """
    body = Body()
    position, block, cache_ = value("position"), value("block"), value("cache")
    zero, one = body.constant(0), body.constant(1)
    length = body.op("Squeeze", body.op("Shape", cache_, start=2, end=3), body.constant([0]))
    width = body.op("Squeeze", body.op("Shape", block, start=0, end=1), body.constant([0]))
    column = body.op("Range", zero, length, one)
    offset = body.op("Sub", column, body.op("Unsqueeze", position, body.constant([1])))
    before = body.op("Less", offset, zero)
    written = body.op("And", body.op("GreaterOrEqual", offset, zero), body.op("Less", offset, width))
    inside = body.op("Min", body.op("Max", offset, zero), body.op("Sub", width, one))
    seen = body.op("Transpose", body.op("Gather", block, inside, axis=1), perm=[1, 0, 2])
    drafted = body.op("And", seen, body.op("Unsqueeze", written, body.constant([1])))
    rows = body.op("Or", drafted, body.op("Unsqueeze", before, body.constant([1])))
    mask = body.op("Unsqueeze", rows, body.constant([1]))
    return function(VISIBILITY, [position, block, cache_], {"mask": mask}, body)


@cache
def attention() -> ir.Function:
    """Attention of S new tokens over a cache that it first writes them into, rounded to the cache's dtype.

    `attention(qkv[B, S, (heads + 2 kv_heads) head_dim], past_key[B, kv_heads, C, head_dim], past_value,
    position i64[B], position_ids i64[B, S], mask bool[B, 1, S, C], cos[P, head_dim / 2], sin)
    {heads, kv_heads, head_dim, scale} -> (y[B, S, heads head_dim], key, value)`.
    """
    return _attention(ATTENTION, qk_norm=False)


@cache
def attention_qk_norm() -> ir.Function:
    """`attention` with an RMS norm over each head of q and k before the rotation (Qwen3).

    Two inputs more, `query_norm[head_dim], key_norm[head_dim]`, and the attribute `epsilon`.
    """
    return _attention(ATTENTION_QK_NORM, qk_norm=True)


def _attention(name: str, *, qk_norm: bool) -> ir.Function:
    body = Body()
    names = ["qkv", "past_key", "past_value", "position", "position_ids", "mask", "cos", "sin"]
    qkv, past_key, past_value, position, position_ids, mask, cos, sin = inputs = [value(n) for n in names]
    heads, kv_heads, head_dim = (body.constant_of(n) for n in ("heads", "kv_heads", "head_dim"))
    sizes = body.op("Mul", body.op("Concat", heads, kv_heads, kv_heads, axis=0), head_dim)
    q, k, v = (
        _split_heads(body, flat, count, head_dim)
        for flat, count in zip(
            body.ops("Split", qkv, sizes, outputs=3, axis=-1), (heads, kv_heads, kv_heads), strict=True
        )
    )
    attributes = [ir.Attr(n, _INT, None) for n in ("heads", "kv_heads", "head_dim")] + [ir.Attr("scale", _FLOAT, None)]
    if qk_norm:
        query_norm, key_norm = value("query_norm"), value("key_norm")
        inputs += [query_norm, key_norm]
        attributes.append(ir.Attr("epsilon", _FLOAT, None))
        epsilon = reference("epsilon", "epsilon", _FLOAT)
        q = body.op("RMSNormalization", q, query_norm, axis=-1, epsilon=epsilon)
        k = body.op("RMSNormalization", k, key_norm, axis=-1, epsilon=epsilon)
    q = body.op("RotaryEmbedding", q, cos, sin, position_ids)
    k = body.op("RotaryEmbedding", k, cos, sin, position_ids)
    key = body.op("TensorScatter", past_key, body.op("CastLike", k, past_key), position, axis=-2)
    value_ = body.op("TensorScatter", past_value, body.op("CastLike", v, past_value), position, axis=-2)
    scale = reference("scale", "scale", _FLOAT)
    wide_key, wide_value = body.op("CastLike", key, q), body.op("CastLike", value_, q)
    mixed = body.op("Attention", q, wide_key, wide_value, mask, scale=scale)
    y = body.op("Reshape", body.op("Transpose", mixed, perm=[0, 2, 1, 3]), body.constant([0, 0, -1]))
    return function(name, inputs, {"y": y, "key": key, "value": value_}, body, attributes)


def _split_heads(body: Body, flat: ir.Value, count: ir.Value, head_dim: ir.Value) -> ir.Value:
    """`[B, S, count * head_dim]` to `[B, count, S, head_dim]`."""
    shape = body.op("Concat", body.constant([0, 0]), count, head_dim, axis=0)
    return body.op("Transpose", body.op("Reshape", flat, shape), perm=[0, 2, 1, 3])
