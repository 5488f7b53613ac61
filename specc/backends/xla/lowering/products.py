"""Matrix products."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from specc.backends.xla.lowering.table import Call, Value, is_float, lowers


@lowers("MatMul")
def matmul(call: Call, a: Value, b: Value) -> Value:
    """In full precision: what may be coarser says so by its dtype."""
    if call.xp is np:
        return np.matmul(a, b)
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST if is_float(a) else None)


@lowers("Gemm")
def _gemm(call: Call, a: Value, b: Value, c: Value = None) -> Value:
    a = a.T if call.attribute("transA", 0) else a
    b = b.T if call.attribute("transB", 0) else b
    product = matmul(call, a, b) * np.asarray(call.attribute("alpha", 1.0), a.dtype)
    return product if c is None else product + np.asarray(call.attribute("beta", 1.0), a.dtype) * c


@lowers("DequantizeLinear")
def dequantize_linear(call: Call, x: Value, scale: Value, zero: Value = None) -> Value:
    """scale * (x - zero); scales one for all, one a row of `axis`, or one for each block along it."""
    spread = [_along(call, v, x, scale) for v in (scale, zero) if v is not None]
    wide = call.xp.asarray(x).astype(np.int32 if not is_float(x) else spread[0].dtype)
    if zero is not None:
        wide = wide - spread[1].astype(wide.dtype)
    to = call.attribute("output_dtype", 0)
    return (wide.astype(spread[0].dtype) * spread[0]).astype(call.dtype(to) if to else spread[0].dtype)


def _along(call: Call, values: Value, x: Value, scale: Value) -> Value:
    axis, block = call.attribute("axis", 1) % max(x.ndim, 1), call.attribute("block_size", 0)
    if scale.ndim == 0 or (scale.size == 1 and scale.ndim <= 1):
        return values.reshape(())
    if block:
        return call.xp.take(call.xp.repeat(values, block, axis=axis), np.arange(x.shape[axis]), axis=axis)
    return values.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
