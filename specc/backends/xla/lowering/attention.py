"""Attention and rotary position embedding."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specc.backends.xla.lowering.table import Call, Value, lowers
from specc.backends.xla.mesh import whole
from specc.errors import LegalizeError

_ATTENTION_ATTRIBUTES = {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap"}


@lowers("RotaryEmbedding")
def rotary_embedding(call: Call, x: Value, cos: Value, sin: Value, position_ids: Value = None) -> Value:
    """x `[B, heads, S, D]`, or `[B, S, heads * D]` with num_heads; tables `[P, D/2]`, or `[B, S, D/2]` as they are."""
    heads = call.attribute("num_heads", 0)
    flat = x.ndim == 3
    split = jnp.moveaxis(jnp.reshape(x, (*x.shape[:2], heads, -1)), 2, 1) if flat else jnp.asarray(x)
    size = call.attribute("rotary_embedding_dim", 0) or split.shape[-1]
    if position_ids is not None:
        cos, sin = (jnp.take(jnp.asarray(t), position_ids, axis=0, mode="clip") for t in (cos, sin))
    cos, sin = (t[:, None, :, : size // 2] for t in (cos, sin))
    turned, rest = split[..., :size], split[..., size:]
    if call.attribute("interleaved", 0):
        even, odd = turned[..., 0::2], turned[..., 1::2]
        pair = (even * cos - odd * sin, odd * cos + even * sin)
        turned = jnp.reshape(jnp.stack(pair, axis=-1), turned.shape)
    else:
        first, second = jnp.split(turned, 2, axis=-1)
        turned = jnp.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
    out = jnp.concatenate((turned, rest), axis=-1)
    return jnp.reshape(jnp.moveaxis(out, 1, 2), x.shape) if flat else out


@lowers("Attention")
def attention(
    call: Call,
    q: Value,
    k: Value,
    v: Value,
    mask: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    valid: Value = None,
) -> tuple[Value, ...]:
    """softmax(scale q k^T + mask) v, query heads in groups that share a key head."""
    unknown = sorted(set(call.attributes) - _ATTENTION_ATTRIBUTES)
    if len(call.node.outputs) > 3 or valid is not None or unknown:
        asked = ", ".join(unknown) or ("its scores as output" if valid is None else "nonpad_kv_seqlen")
        raise LegalizeError(
            f"xla: Attention has no form with {asked}; add it to specc/backends/xla/lowering/attention.py"
        )
    flat = q.ndim == 3
    if flat:
        q = _heads(q, call.attribute("q_num_heads"))
        k, v = (_heads(x, call.attribute("kv_num_heads")) for x in (k, v))
    if past_key is not None:
        k, v = jnp.concatenate((past_key, k), axis=2), jnp.concatenate((past_value, v), axis=2)
    if k.shape[1] % call.machine.devices:  # heads that can't be cut: else the caches would be, and put together again
        k, v = whole(k, call.machine.devices), whole(v, call.machine.devices)
    past = 0 if past_key is None else past_key.shape[2]
    scale = call.attribute("scale") or 1 / math.sqrt(q.shape[-1])
    seen = np.tri(q.shape[2], k.shape[2], past, dtype=np.bool_) if call.attribute("is_causal", 0) else None
    mixed = grouped_attention(q, k, v, scale, mask, seen, call.attribute("softcap", 0.0))
    y = jnp.reshape(jnp.moveaxis(mixed, 1, 2), (*mixed.shape[0:1], mixed.shape[2], -1)) if flat else mixed
    return (y, k, v)[: len(call.node.outputs)]


def grouped_attention(
    q: Value, k: Value, v: Value, scale: float, mask: Value = None, seen: Value = None, softcap: float = 0.0
) -> Value:
    """q `[B, N, S, D]`, k and v `[B, G, C, D]`, mask bool or added, broadcast to `[B, N, S, C]`; `[B, N, S, D]`."""
    batch, heads, width, size = q.shape
    groups = k.shape[1]
    grouped = jnp.reshape(q, (batch, groups, heads // groups, width, size))
    exact: dict[str, Any] = {"precision": lax.Precision.HIGHEST, "preferred_element_type": jnp.float32}
    scores = jnp.einsum("bgnsd,bgcd->bgnsc", grouped, k, **exact)
    scores = jnp.reshape(scores, (batch, heads, width, k.shape[2])) * np.float32(scale)
    bias, allowed = (None, seen) if mask is None or mask.dtype == np.bool_ else (mask, seen)
    if mask is not None and bias is None:
        allowed = mask if seen is None else jnp.logical_and(mask, seen)
    if softcap:
        scores = softcap * jnp.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        scores = jnp.where(allowed, scores, -jnp.inf)
    law = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    if allowed is not None:
        law = jnp.where(jnp.any(allowed, axis=-1, keepdims=True), law, jnp.zeros((), v.dtype))
    law = jnp.reshape(law, (batch, groups, heads // groups, width, k.shape[2]))
    mixed = jnp.einsum("bgnsc,bgcd->bgnsd", law, v, **exact).astype(q.dtype)
    return jnp.reshape(mixed, (batch, heads, width, v.shape[-1]))


def _heads(x: Value, count: int) -> Value:
    return jnp.moveaxis(jnp.reshape(x, (*x.shape[:2], count, -1)), 2, 1)
