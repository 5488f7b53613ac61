"""Functions of domain `specc` that XLA has a better form for than their bodies."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from specc.backends.xla.lowering.table import Call, Value, lowers_function
from specc.backends.xla.mesh import whole
from specc.backends.xla.parts import FirstRows, Packed, plain
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.functions.thresholds import (
    EXPONENT_STEPS,
    MANTISSA_BITS,
    SMALLEST,
    TOP_K_THRESHOLD,
    TOP_P_THRESHOLD,
)


@lowers_function(LINEAR)
def linear(call: Call, x: Value, weight: Value) -> Value:
    """One product with the weight as it is stored, `[out, in]`; of a table's first rows, cut afterwards."""
    if isinstance(weight, FirstRows):
        return linear(call, x, weight.table)[..., : weight.rows]
    if isinstance(weight, Packed):
        return Packed(tuple(_linear(call, x, piece) for piece in weight.pieces), axis=-1)
    return whole(_linear(call, x, weight), call.machine.devices)


def _linear(call: Call, x: Value, weight: Value) -> Value:
    weight = plain(weight)
    narrow = call.machine.multiplies(str(weight.dtype))
    return _product(call, x.astype(weight.dtype) if narrow else x, weight if narrow else weight.astype(x.dtype))


@lowers_function(LINEAR_Q8)
def linear_q8(call: Call, x: Value, codes: Value, scale: Value) -> Value:
    """Codes are multiplied as they are and scaled afterwards: no weight is ever dequantised.

    In 16 bits where the machine has such products: there codes are exact and x is rounded.
    """
    if isinstance(codes, FirstRows):
        return linear_q8(call, x, codes.table, scale.table)[..., : codes.rows]
    if isinstance(codes, Packed):
        pieces = zip(codes.pieces, scale.pieces, strict=True)
        return Packed(tuple(_linear_q8(call, x, *piece) for piece in pieces), axis=-1)
    return whole(_linear_q8(call, x, codes, scale), call.machine.devices)


def _linear_q8(call: Call, x: Value, codes: Value, scale: Value) -> Value:
    codes, scale = plain(codes), plain(scale)
    block = call.attribute("block_size")
    outputs, inputs = codes.shape
    dtype = max(call.machine.matrix_dtypes & {"bfloat16"} or call.machine.matrix_dtypes, default=str(x.dtype))
    x = x.astype(dtype)
    signed = codes.astype(x.dtype) - np.asarray(call.attribute("zero_point"), x.dtype)
    if block == inputs:
        return _product(call, x, signed) * scale[:, 0]
    blocks = jnp.reshape(x, (*x.shape[:-1], inputs // block, block))
    partial = jnp.einsum(
        "...kb,nkb->...kn",
        blocks,
        jnp.reshape(signed, (outputs, -1, block)),
        precision=lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )
    return jnp.einsum("...kn,nk->...n", partial, scale, precision=lax.Precision.HIGHEST)


@lowers_function("highest_threshold")
def highest_threshold(call: Call, values: Value, weights: Value, needed: Value) -> Value:
    """The passes of the body as two loops, so that a program holds each once."""

    def raised(threshold: Value, candidate: Value) -> Value:
        reached = jnp.where(values >= candidate, weights, np.float32(0)).sum(axis=-1, keepdims=True) >= needed
        return jnp.where(reached, candidate, threshold)

    threshold = raised(jnp.zeros_like(needed), jnp.full_like(needed, SMALLEST))
    factors = np.asarray([2.0**step for step in EXPONENT_STEPS], np.float32)
    threshold, _ = lax.scan(lambda t, factor: (raised(t, t * factor), None), threshold, factors)
    power, fractions = threshold, np.asarray([2.0**-bit for bit in range(1, MANTISSA_BITS + 1)], np.float32)
    threshold, _ = lax.scan(lambda t, fraction: (raised(t, t + power * fraction), None), threshold, fractions)
    return threshold


@lowers_function(TOP_K_THRESHOLD)
def top_k_threshold(call: Call, logits: Value, k: Value) -> Value:
    """Searched for only where a request asks for it."""
    least = jnp.full((*logits.shape[:-1], 1), np.finfo(np.float32).min)
    return lax.cond(jnp.any(k > 0), lambda: call.body(logits, k)[0], lambda: least)


@lowers_function(TOP_P_THRESHOLD)
def top_p_threshold(call: Call, weights: Value, top_p: Value) -> Value:
    """Searched for only where a request asks for it."""
    zeros = jnp.zeros((*weights.shape[:-1], 1), np.float32)
    return lax.cond(jnp.any(top_p < 1), lambda: call.body(weights, top_p)[0], lambda: zeros)


def _product(call: Call, x: Value, weight: Value) -> Value:
    """x[..., K] weight[N, K]^T in fp32, with as many rows of x as the machine's matrix units want."""
    rows = jnp.reshape(x, (-1, x.shape[-1]))
    missing = max(0, call.machine.matrix_rows - rows.shape[0])
    fed = jnp.pad(rows, ((0, missing), (0, 0))) if missing else rows
    contract = (((1,), (1,)), ((), ()))
    exact = {"precision": lax.Precision.HIGHEST, "preferred_element_type": jnp.float32}
    y = lax.dot_general(fed, weight, contract, **exact)[: rows.shape[0]]
    return jnp.reshape(y, (*x.shape[:-1], weight.shape[0]))
