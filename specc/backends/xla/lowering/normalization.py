"""Norms and softmax."""

import jax
import jax.numpy as jnp
import numpy as np

from specc.backends.xla.lowering.table import Call, Value, lowers


@lowers("RMSNormalization")
def rms_normalization(call: Call, x: Value, scale: Value) -> Value:
    """x / sqrt(mean(x^2) + epsilon) * scale, the mean over the axes from `axis` on, computed in `stash_type`."""
    over = tuple(range(call.attribute("axis", -1) % x.ndim, x.ndim))
    wide = jnp.asarray(x).astype(call.dtype(call.attribute("stash_type", 1)))
    mean = jnp.mean(jnp.square(wide), axis=over, keepdims=True)
    normed = wide * jax.lax.rsqrt(mean + np.float32(call.attribute("epsilon", 1e-5)))
    return (normed.astype(x.dtype) * scale).astype(scale.dtype)


@lowers("LayerNormalization")
def _layer_normalization(call: Call, x: Value, scale: Value, bias: Value = None) -> tuple[Value, ...]:
    over = tuple(range(call.attribute("axis", -1) % x.ndim, x.ndim))
    wide = jnp.asarray(x).astype(call.dtype(call.attribute("stash_type", 1)))
    mean = jnp.mean(wide, axis=over, keepdims=True)
    inverse = jax.lax.rsqrt(jnp.var(wide, axis=over, keepdims=True) + np.float32(call.attribute("epsilon", 1e-5)))
    y = ((wide - mean) * inverse).astype(x.dtype) * scale
    return (y if bias is None else y + bias, mean, inverse)[: len(call.node.outputs)]


@lowers("Softmax")
def _softmax(call: Call, x: Value) -> Value:
    return jax.nn.softmax(jnp.asarray(x), axis=call.attribute("axis", -1))


@lowers("LogSoftmax")
def _log_softmax(call: Call, x: Value) -> Value:
    return jax.nn.log_softmax(jnp.asarray(x), axis=call.attribute("axis", -1))
