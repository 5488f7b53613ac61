"""Laws and draws: logits to the law a request samples from, a law and a uniform number to a token.

Sums are float32. A law's own rounding and that of the sums stay near 1e-7 relative for any vocabulary, because draws
sum in blocks: a running sum over a whole vocabulary would swallow tokens below 2^-24 of what stands before them.
"""

from functools import cache

import numpy as np
import onnx_ir as ir

from specc.core.building import Body, function, value
from specc.core.functions.thresholds import per_row, threshold_functions, top_k_threshold, top_p_threshold

LOGITS_TO_SAMPLE = "logits_to_sample"
CHOSEN_LAW = "chosen_law"
BLOCK = 256  # tokens summed before the sums are


@cache
def warp() -> ir.Function:
    """`warp(logits f32[B, R, V], temperature f32[B], top_k i64[B], top_p f32[B], min_p f32[B]) -> law f32[B, R, V]`.

    Order: temperature, top_k (0: off), top_p (1: off), min_p (0: off; relative to the likeliest). Ties at a threshold
    are all kept. Temperature 0 gives the one-hot law of the likeliest token, the first among equals.
    """
    body = Body()
    logits, temperature, top_k, top_p, min_p = inputs = [
        value(name) for name in ("logits", "temperature", "top_k", "top_p", "min_p")
    ]
    one, last = body.constant([1], np.float32), body.constant([-1])
    greedy = body.op("LessOrEqual", temperature, body.constant([0], np.float32))
    (used,) = body.call(logits_to_sample(), logits, greedy)
    shifted = body.op("Sub", used, body.op("ReduceMax", used, last))
    divisor = per_row(body, body.op("Where", greedy, one, temperature))
    weights = body.op("Exp", body.op("Div", shifted, divisor))  # the likeliest token's is 1
    (kth,) = body.call(top_k_threshold(), used, body.op("Where", greedy, body.constant([0]), top_k))
    weights = _kept(body, weights, body.op("GreaterOrEqual", used, kth))
    (nucleus,) = body.call(top_p_threshold(), weights, body.op("Where", greedy, one, top_p))
    floor = body.op("Min", body.op("Max", nucleus, per_row(body, min_p)), one)
    weights = _kept(body, weights, body.op("GreaterOrEqual", weights, floor))
    sampled = body.op("Div", weights, body.op("ReduceSum", weights, last))
    (law,) = body.call(chosen_law(), sampled, logits, greedy)
    return function("warp", inputs, {"law": law}, body)


@cache
def logits_to_sample() -> ir.Function:
    """`logits_to_sample(logits f32[B, R, V], greedy bool[B]) -> used f32[B, R, V]`: all of them.

    For a backend to lower: where every sequence is greedy, any part will do, since `chosen_law` drops what comes of it.
    """
    body = Body()
    logits, greedy = value("logits"), value("greedy")
    return function(LOGITS_TO_SAMPLE, [logits, greedy], {"used": body.op("Identity", logits)}, body)


@cache
def chosen_law() -> ir.Function:
    """`chosen_law(sampled f32[B, R, V], logits f32[B, R, V], greedy bool[B]) -> law f32[B, R, V]`.

    The one-hot law of the likeliest token, the first among equals, for greedy sequences; `sampled` for the others.
    """
    body = Body()
    sampled, logits, greedy = inputs = [value(name) for name in ("sampled", "logits", "greedy")]
    likeliest = body.op("ArgMax", logits, axis=-1, keepdims=0)
    (certain,) = body.call(one_hot(), likeliest, body.op("Shape", logits, start=-1))
    law = body.op("Where", per_row(body, greedy), certain, sampled)
    return function(CHOSEN_LAW, inputs, {"law": law}, body)


@cache
def one_hot() -> ir.Function:
    """`one_hot(ids i64[...], vocabulary i64[1]) -> law f32[..., V]`: the law of a drafter that never draws."""
    body = Body()
    ids, vocabulary = value("ids"), value("vocabulary")
    columns = _range(body, vocabulary)
    law = body.op(
        "Cast", body.op("Equal", body.op("Unsqueeze", ids, body.constant([-1])), columns), to=ir.DataType.FLOAT
    )
    return function("one_hot", [ids, vocabulary], {"law": law}, body)


@cache
def widen() -> ir.Function:
    """`widen(law f32[B, H], head_ids i64[H], vocabulary i64[1]) -> wide f32[B, V]`: 0 for ids a trimmed head lacks."""
    body = Body()
    law, head_ids, vocabulary = value("law"), value("head_ids"), value("vocabulary")
    batch = body.op("Shape", law, start=0, end=1)
    zeros = body.op("Expand", body.constant([0], np.float32), body.op("Concat", batch, vocabulary, axis=0))
    columns = body.op("Expand", head_ids, body.op("Shape", law))
    wide = body.op("ScatterElements", zeros, columns, law, axis=1)
    return function("widen", [law, head_ids, vocabulary], {"wide": wide}, body)


@cache
def pick() -> ir.Function:
    """`pick(masses f32[B, N] >= 0, target f32[B, 1]) -> (index i64[B, 1], before f32[B, 1])`.

    The first entry whose running sum exceeds `target`, and the sum before it. Only entries of positive mass are picked,
    whatever order a backend sums in; the last of them where rounding leaves `target` unreached; 0 if there is none.
    """
    body = Body()
    masses, target = value("masses"), value("target")
    before = body.op("CumSum", masses, body.constant(1), exclusive=1)
    positive = body.op("Greater", masses, body.constant([0], np.float32))
    exceeds = body.op("And", body.op("Greater", body.op("Add", before, masses), target), positive)
    count = body.op("Shape", masses, start=1, end=2)
    entries = _range(body, count)
    first = body.op("ReduceMin", body.op("Where", exceeds, entries, count), body.constant([1]))
    last = body.op("ReduceMax", body.op("Where", positive, entries, body.constant([0])), body.constant([1]))
    index = body.op("Min", first, last)
    before_it = body.op("Unsqueeze", body.op("GatherND", before, index, batch_dims=1), body.constant([1]))
    return function("pick", [masses, target], {"index": index, "before": before_it}, body)


@cache
def draw() -> ir.Function:
    """`draw(law f32[B, V] >= 0, u f32[B]) -> id i64[B]`: the inverse of the running sum at u in [0, 1) times its total.

    `law` need not sum to 1. Never a token of zero mass, for any u (token 0 if all are zero).
    """
    body = Body()
    law, u = value("law"), value("u")
    block, last = body.constant([BLOCK]), body.constant([-1])
    missing = body.op("Mod", body.op("Neg", body.op("Shape", law, start=-1)), block)
    pads = body.op("Concat", body.constant([0]), missing, axis=0)
    blocks = body.op("Reshape", body.op("Pad", law, pads, None, last), body.constant([0, -1, BLOCK]))
    masses = body.op("ReduceSum", blocks, last, keepdims=0)
    target = body.op("Mul", body.op("Unsqueeze", u, last), body.op("ReduceSum", masses, last))
    row, before = body.call(pick(), masses, target)
    inside, _ = body.call(pick(), body.op("GatherND", blocks, row, batch_dims=1), body.op("Sub", target, before))
    token = body.op("Squeeze", body.op("Add", body.op("Mul", row, block), inside), last)
    return function("draw", [law, u], {"id": token}, body)


def sampling_functions() -> list[ir.Function]:
    """What a model that warps and draws must hold."""
    return [warp(), logits_to_sample(), chosen_law(), one_hot(), widen(), pick(), draw(), *threshold_functions()]


def _kept(body: Body, weights: ir.Value, mask: ir.Value) -> ir.Value:
    return body.op("Mul", weights, body.op("Cast", mask, to=ir.DataType.FLOAT))


def _range(body: Body, count: ir.Value) -> ir.Value:
    """0 ... count - 1, for a count `[1]`."""
    return body.op("Range", body.constant(0), body.op("Squeeze", count), body.constant(1))
