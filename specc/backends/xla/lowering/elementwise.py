"""Ops that work element by element."""

from collections.abc import Callable

import jax
import numpy as np

from specc.backends.xla.lowering.table import LOWERINGS, Call, Value, is_float, lowers
from specc.backends.xla.parts import FirstRows

_UNARY = {
    "Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Exp": "exp", "Floor": "floor", "Identity": "asarray", "Log": "log",
    "Neg": "negative", "Not": "logical_not", "Round": "round", "Sign": "sign", "Sin": "sin", "Sqrt": "sqrt",
    "Tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "Add": "add", "And": "logical_and", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal",
    "Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply", "Or": "logical_or", "Sub": "subtract",
    "Xor": "logical_xor",
}  # fmt: skip
_MANY = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _unary(name: str) -> Callable[[Call, Value], Value]:
    return lambda call, x: getattr(call.xp, name)(x)


def _binary(name: str) -> Callable[[Call, Value, Value], Value]:
    return lambda call, a, b: getattr(call.xp, name)(a, b)


def _many(name: str) -> Callable[..., Value]:
    def lowering(call: Call, *values: Value) -> Value:
        result, *others = values
        for other in others:
            result = getattr(call.xp, name)(result, other)
        return result

    return lowering


LOWERINGS |= {("", op): _unary(name) for op, name in _UNARY.items()}
LOWERINGS |= {("", op): _binary(name) for op, name in _BINARY.items()}
LOWERINGS |= {("", op): _many(name) for op, name in _MANY.items()}


@lowers("Div")
def div(call: Call, a: Value, b: Value) -> Value:
    """Integers are divided towards zero."""
    if is_float(a):
        return call.xp.divide(a, b)
    quotient = call.xp.floor_divide(a, b)
    rounded_up = (call.xp.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return (quotient + rounded_up).astype(a.dtype)


@lowers("Mod")
def mod(call: Call, a: Value, b: Value) -> Value:
    """The remainder's sign is the divisor's, or with fmod the dividend's."""
    return (call.xp.fmod if call.attribute("fmod", 0) else call.xp.remainder)(a, b)


@lowers("Pow")
def power(call: Call, base: Value, exponent: Value) -> Value:
    """In the dtype of the base."""
    return call.xp.power(base, exponent).astype(base.dtype)


@lowers("Reciprocal")
def _reciprocal(call: Call, x: Value) -> Value:
    return call.xp.divide(np.ones((), x.dtype), x)


@lowers("Relu")
def _relu(call: Call, x: Value) -> Value:
    return call.xp.maximum(x, np.zeros((), x.dtype))


@lowers("Sigmoid")
def _sigmoid(call: Call, x: Value) -> Value:
    return jax.nn.sigmoid(x)


@lowers("Swish")
def _swish(call: Call, x: Value) -> Value:
    return x * jax.nn.sigmoid(x * np.asarray(call.attribute("alpha", 1.0), x.dtype))


@lowers("Gelu")
def _gelu(call: Call, x: Value) -> Value:
    return jax.nn.gelu(x, approximate=call.attribute("approximate", "none") == "tanh")


@lowers("Erf")
def _erf(call: Call, x: Value) -> Value:
    return jax.lax.erf(call.xp.asarray(x))


@lowers("Softplus")
def _softplus(call: Call, x: Value) -> Value:
    return jax.nn.softplus(x)


@lowers("Clip")
def clip(call: Call, x: Value, low: Value = None, high: Value = None) -> Value:
    """An upper bound below the lower one wins."""
    if low is not None:
        x = call.xp.maximum(x, low)
    return x if high is None else call.xp.minimum(x, high)


@lowers("Where")
def _where(call: Call, condition: Value, a: Value, b: Value) -> Value:
    return call.xp.where(condition, a, b)


@lowers("IsNaN")
def _is_nan(call: Call, x: Value) -> Value:
    return call.xp.isnan(x)


@lowers("Cast")
def cast(call: Call, x: Value) -> Value:
    """Floats become integers by dropping the fraction. A table's first rows stay that."""
    if isinstance(x, FirstRows):
        return FirstRows(cast(call, x.table), x.rows)
    return call.xp.asarray(x).astype(call.dtype(call.attribute("to")))


@lowers("CastLike")
def _cast_like(call: Call, x: Value, like: Value) -> Value:
    return call.xp.asarray(x).astype(like.dtype)
