"""Which tokens top-k and top-p keep, found without sorting: a threshold, built bit by bit from the largest down.

A float32 threshold has 8 exponent bits and 23 mantissa bits, so some thirty passes that each only compare and sum find
the exact one. All of it is plain float32 arithmetic: no bit casts, no control flow.
"""

from functools import cache

import numpy as np
import onnx_ir as ir

from specc.core.building import Body, function, value

TOP_K_THRESHOLD = "top_k_threshold"
TOP_P_THRESHOLD = "top_p_threshold"
HIGHEST_THRESHOLD = "highest_threshold"

SMALLEST = 2.0**-126  # the smallest normal float32: what is smaller counts as zero
EXPONENT_STEPS = (64, 64, 64, 32, 16, 8, 4, 2, 1)  # in sum at least 253, from 2^-126 up to 2^127; 2^128 is no float32
MANTISSA_BITS = 23
_NEVER = np.finfo(np.float32).max


@cache
def raise_threshold() -> ir.Function:
    """The candidate where the weights of the values that reach it sum to `needed` or more, else the threshold.

    `raise_threshold(values f32[B, R, V], weights f32[B, R, V] or [1], needed f32[B, R, 1], threshold f32[B, R, 1] or
    [1], candidate likewise) -> higher f32[B, R, 1]`.
    """
    body = Body()
    values, weights, needed, threshold, candidate = inputs = [
        value(name) for name in ("values", "weights", "needed", "threshold", "candidate")
    ]
    reached = body.op(
        "GreaterOrEqual", body.op("ReduceSum", _above(body, values, candidate, weights), _last(body)), needed
    )
    higher = body.op("Where", reached, candidate, threshold)
    return function("raise_threshold", inputs, {"higher": higher}, body)


@cache
def highest_threshold() -> ir.Function:
    """`highest_threshold(values f32[B, R, V], weights f32[B, R, V] or [1], needed f32[B, R, 1]) -> f32[B, R, 1]`.

    The largest t >= 0 with sum of weights[values >= t] >= needed; 0 if no t of at least 2^-126 has that.
    """
    body = Body()
    values, weights, needed = inputs = [value(name) for name in ("values", "weights", "needed")]

    def raised(threshold: ir.Value, candidate: ir.Value) -> ir.Value:
        (higher,) = body.call(raise_threshold(), *inputs, threshold, candidate)
        return higher

    threshold = raised(body.constant([0], np.float32), body.constant([SMALLEST], np.float32))
    for step in EXPONENT_STEPS:
        threshold = raised(threshold, body.op("Mul", threshold, body.constant([2.0**step], np.float32)))
    power = threshold
    for bit in range(1, MANTISSA_BITS + 1):
        increment = body.op("Mul", power, body.constant([2.0**-bit], np.float32))
        threshold = raised(threshold, body.op("Add", threshold, increment))
    return function(HIGHEST_THRESHOLD, [values, weights, needed], {"threshold": threshold}, body)


@cache
def top_k_threshold() -> ir.Function:
    """`top_k_threshold(logits f32[B, R, V], k i64[B]) -> threshold f32[B, R, 1]`: the k-th largest logit.

    The least one for k 0 (off). A negative one is found as the (V - k + 1)-th largest of the negated logits, so that
    only magnitudes are searched.
    """
    body = Body()
    logits, k = value("logits"), value("k")
    one = body.constant([1], np.float32)
    count = body.op("Shape", logits, start=-1)
    asked = body.op("Where", body.op("Greater", k, body.constant([0])), body.op("Min", k, count), count)
    rank = per_row(body, body.op("Cast", asked, to=ir.DataType.FLOAT))
    zero = body.constant([0], np.float32)
    non_negative = body.op("ReduceSum", _above(body, logits, zero, one), _last(body))
    is_positive = body.op("GreaterOrEqual", non_negative, rank)
    sign = body.op("Where", is_positive, one, body.constant([-1], np.float32))
    total = body.op("Add", body.op("Cast", count, to=ir.DataType.FLOAT), one)
    needed = body.op("Where", is_positive, rank, body.op("Sub", total, rank))
    (magnitude,) = body.call(highest_threshold(), body.op("Mul", logits, sign), one, needed)
    return function(TOP_K_THRESHOLD, [logits, k], {"threshold": body.op("Mul", magnitude, sign)}, body)


@cache
def top_p_threshold() -> ir.Function:
    """`top_p_threshold(weights f32[B, R, V] >= 0, top_p f32[B]) -> threshold f32[B, R, 1]`.

    The largest t with sum of weights[weights >= t] >= top_p times the sum of all; 0 for top_p 1 (off).
    """
    body = Body()
    weights, top_p = value("weights"), value("top_p")
    share = body.op("Mul", body.op("ReduceSum", weights, _last(body)), per_row(body, top_p))
    off = per_row(body, body.op("GreaterOrEqual", top_p, body.constant([1], np.float32)))
    needed = body.op("Where", off, body.constant([_NEVER], np.float32), share)
    (threshold,) = body.call(highest_threshold(), weights, weights, needed)
    return function(TOP_P_THRESHOLD, [weights, top_p], {"threshold": threshold}, body)


def threshold_functions() -> list[ir.Function]:
    """What a model that calls the thresholds must hold."""
    return [raise_threshold(), highest_threshold(), top_k_threshold(), top_p_threshold()]


def per_row(body: Body, per_sequence: ir.Value) -> ir.Value:
    """`[B]` to `[B, 1, 1]`, to go with `[B, R, V]`."""
    return body.op("Unsqueeze", per_sequence, body.constant([1, 2]))


def _above(body: Body, values: ir.Value, threshold: ir.Value, weights: ir.Value) -> ir.Value:
    """The weights where values reach the threshold, else 0."""
    reached = body.op("GreaterOrEqual", values, threshold)
    return body.op("Mul", body.op("Cast", reached, to=ir.DataType.FLOAT), weights)


def _last(body: Body) -> ir.Value:
    return body.constant([-1])
