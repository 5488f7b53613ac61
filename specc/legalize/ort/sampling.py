"""Sampling on ONNX Runtime: partial sorts of the likeliest tokens instead of thirty passes over all.

What a request does not ask for costs nothing: the ops are then fed a single column.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from specc.core.building import Body
from specc.core.functions.sampling import CHOSEN_LAW, LOGITS_TO_SAMPLE
from specc.core.functions.thresholds import TOP_K_THRESHOLD, TOP_P_THRESHOLD, per_row
from specc.core.inspection import inputs_of
from specc.legalize.rewriting import rewrites

_LIKELY_FLOORS = (1e-3, 1e-4)  # shares of the sum that the least likely token of most nuclei exceeds
_LEAST = np.finfo(np.float32).min


@rewrites(LOGITS_TO_SAMPLE, on="ort")
def logits_to_sample(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """A single column if every sequence is greedy."""
    logits, greedy = inputs_of(node)
    return [_columns_if(body, logits, _any(body, body.op("Not", greedy)))]


@rewrites(CHOSEN_LAW, on="ort")
def chosen_law(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The sampled law, cleared for greedy sequences and filled up to all columns; then one mass is set."""
    sampled, logits, greedy = inputs_of(node)
    last = body.constant([-1])
    is_sampled = body.op("Cast", body.op("Not", per_row(body, greedy)), to=ir.DataType.FLOAT)
    missing = body.op("Sub", body.op("Shape", logits, start=-1), body.op("Shape", sampled, start=-1))
    pads = body.op("Concat", body.constant([0]), missing, axis=0)
    law = body.op("Pad", body.op("Mul", sampled, is_sampled), pads, None, last)
    likeliest = body.op("ArgMax", _columns_if(body, logits, _any(body, greedy)), axis=-1)
    mass = body.op("GatherElements", law, likeliest, axis=-1)
    mass = body.op("Where", per_row(body, greedy), body.constant([1], np.float32), mass)
    return [body.op("ScatterElements", law, likeliest, mass, axis=-1)]


@rewrites(TOP_K_THRESHOLD, on="ort")
def top_k_threshold(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The k-th column of TopK."""
    logits, k = inputs_of(node)
    zero, one = body.constant([0]), body.constant([1])
    most = body.op("ReduceMax", k)
    largest = _largest(body, _columns_if(body, logits, body.op("Greater", most, zero)), most)
    depth = body.op("Shape", largest, start=-1)
    column = body.op("Sub", body.op("Min", body.op("Max", k, one), depth), one)
    kth = _at(body, largest, per_row(body, column))
    on = per_row(body, body.op("Greater", k, zero))
    return [body.op("Where", on, kth, body.constant([_LEAST], np.float32))]


@rewrites(TOP_P_THRESHOLD, on="ort")
def top_p_threshold(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """The value at which the running sum of the sorted weights reaches top_p of their sum.

    Only weights above a floor are sorted, and above a lower one where those do not hold enough. All weights below the
    last floor, (1 - top_p) / V of the sum, hold less than 1 - top_p of it together.
    """
    weights, top_p = inputs_of(node)
    total = body.op("ReduceSum", weights, body.constant([-1]))
    asked = per_row(body, top_p)
    needed = body.op("Cast", body.op("Mul", total, asked), to=ir.DataType.DOUBLE)
    pending = body.op("Less", asked, body.constant([1], np.float32))
    threshold = body.constant([0], np.float32)
    for share in (
        *(body.constant([share], np.float32) for share in _LIKELY_FLOORS),
        _certain_floor(body, weights, asked),
    ):
        descending = _reaching(body, weights, body.op("Mul", total, share), _any(body, pending))
        held = body.op("CumSum", body.op("Cast", descending, to=ir.DataType.DOUBLE), body.constant(2))
        short = body.op("Cast", body.op("Less", held, needed), to=ir.DataType.INT64)
        column = body.op("ReduceSum", short, body.constant([-1]))
        depth = body.op("Shape", descending, start=-1)
        found = body.op("And", pending, body.op("Less", column, depth))
        value = _at(body, descending, body.op("Min", column, body.op("Sub", depth, body.constant([1]))))
        threshold = body.op("Where", found, value, threshold)
        pending = body.op("And", pending, body.op("Not", found))
    return [threshold]


def _certain_floor(body: Body, weights: ir.Value, top_p: ir.Value) -> ir.Value:
    """0.999 (1 - top_p) / V, `[B, 1, 1]`; 0.999: no rounding may cut into the nucleus."""
    size = body.op("Cast", body.op("Shape", weights, start=-1), to=ir.DataType.FLOAT)
    rest = body.op("Sub", body.constant([1], np.float32), top_p)
    return body.op("Div", body.op("Mul", rest, body.constant([0.999], np.float32)), size)


def _reaching(body: Body, weights: ir.Value, floor: ir.Value, wanted: ir.Value) -> ir.Value:
    """The largest of `weights` `[B, R, V]`, descending: as many as reach `floor` in the row where most do."""
    fed = _columns_if(body, weights, wanted)
    reached = body.op("Cast", body.op("GreaterOrEqual", fed, floor), to=ir.DataType.FLOAT)
    most = body.op("ReduceMax", body.op("ReduceSum", reached, body.constant([-1])), keepdims=0)
    return _largest(body, fed, body.op("Reshape", body.op("Cast", most, to=ir.DataType.INT64), body.constant([1])))


def _columns_if(body: Body, values: ir.Value, wanted: ir.Value) -> ir.Value:
    """`values` `[B, R, V]`, or their first column alone if not `wanted` (bool `[1]`)."""
    width = body.op("Where", wanted, body.op("Shape", values, start=-1), body.constant([1]))
    return body.op("Slice", values, body.constant([0]), width, body.constant([-1]))


def _largest(body: Body, values: ir.Value, count: ir.Value) -> ir.Value:
    """The `count` (`[1]`) largest of `values` `[B, R, V]`, descending; one at least, V at most."""
    depth = body.op("Min", body.op("Max", count, body.constant([1])), body.op("Shape", values, start=-1))
    largest, _ = body.ops("TopK", values, depth, outputs=2, axis=-1)
    return largest


def _at(body: Body, values: ir.Value, column: ir.Value) -> ir.Value:
    """values[b, r, column[b, r]], `[B, R, 1]`, for a column `[B, R, 1]` or `[B, 1, 1]`."""
    rows = body.op("Concat", body.op("Shape", values, start=0, end=2), body.constant([1]), axis=0)
    return body.op("GatherElements", values, body.op("Expand", column, rows), axis=-1)


def _any(body: Body, flags: ir.Value) -> ir.Value:
    """Whether any flag is set, bool `[1]`."""
    counted = body.op("ReduceMax", body.op("Cast", flags, to=ir.DataType.INT64), keepdims=0)
    return body.op("Greater", body.op("Reshape", counted, body.constant([1])), body.constant([0]))
