"""In-graph acceptance: how drafted tokens become emitted ones without changing the verifier's law.

p: the verifier's laws, row i after i drafted tokens. q: the laws the drafter really drew from; one-hot at the drafted
token for a greedy drafter or an n-gram. u: uniforms in [0, 1): one acceptance each, the last for the final draw.
Only ids and counts leave the graph. Temperature 0 needs no case of its own: its laws are one-hot.
limit i64[B], of the functions that are made `limited`: 0 ... gamma; only the first so many drafted tokens are judged,
as if no others had been drafted. Near the end of a text a host drafts less: so can a program whose gamma is fixed.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import onnx_ir as ir

from specc.core.building import Body, function, value
from specc.core.functions.sampling import draw, pick

_INPUTS = ("drafted", "p", "q", "u")


@cache
def settle() -> ir.Function:
    """What a round emits once its accepted length is known.

    `settle(drafted i64[B, gamma], p f32[B, gamma + 1, V], q f32[B, gamma, V], length i64[B, 1], kept f32[B, 1],
    u f32[B, 1], judged i64[B, 1]) -> (ids i64[B, gamma + 1], count i64[B])`.
    The first `length` drafted tokens, then one from max(0, kept p - q) normalised, in the row after them; q is 0 after
    the last of the `judged` tokens. Drawn from p where rounding has left nothing of the difference. ids beyond count
    are 0.
    """
    body = Body()
    names = ("drafted", "p", "q", "length", "kept", "u", "judged")
    drafted, p, q, length, kept, u, judged = inputs = [value(name) for name in names]
    one, axis = body.constant([1]), body.constant([1])
    gamma = body.op("Shape", drafted, start=1, end=2)
    verified = body.op("GatherND", p, length, batch_dims=1)
    offered = body.op("GatherND", q, body.op("Min", length, body.op("Sub", gamma, one)), batch_dims=1)
    offered = body.op("Mul", offered, body.op("Cast", body.op("Less", length, judged), to=ir.DataType.FLOAT))
    residual = body.op("Relu", body.op("Sub", body.op("Mul", verified, kept), offered))
    left = body.op("Greater", body.op("ReduceMax", residual, axis), body.constant([0], np.float32))
    (token,) = body.call(draw(), body.op("Where", left, residual, verified), body.op("Squeeze", u, axis))
    token = body.op("Unsqueeze", token, axis)
    column = body.op("Range", body.constant(0), body.op("Squeeze", body.op("Add", gamma, one)), body.constant(1))
    final = body.op("Where", body.op("Equal", column, length), token, body.constant([0]))
    ids = body.op("Where", body.op("Less", column, length), body.op("Concat", drafted, token, axis=1), final)
    count = body.op("Squeeze", body.op("Add", length, one), axis)
    return function("settle", inputs, {"ids": ids, "count": count}, body)


@cache
def accept_tokenwise(gamma: int, limited: bool = False) -> ir.Function:
    """Token by token (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2).

    `accept_tokenwise_{gamma}(drafted i64[B, gamma], p f32[B, gamma + 1, V], q f32[B, gamma, V], u f32[B, gamma + 1])
    -> (ids i64[B, gamma + 1], count i64[B])`; `limited`, accept_tokenwise_{gamma}_limited takes `limit` too.
    x_i is accepted if u_i < p_i(x_i) / q_i(x_i); at the first failure a draw from norm(max(0, p_i - q_i)).
    """
    body = Body()
    inputs, most = _inputs(body, gamma, limited)
    drafted, p, q, u = inputs[:4]
    judged, final = body.ops("Split", u, body.constant([gamma, 1]), outputs=2, axis=1)
    mass_p, mass_q = _drafted_masses(body, drafted, p, q, gamma)
    accepted = body.op("Less", body.op("Mul", judged, mass_q), mass_p)
    failed_at = body.op("Where", accepted, body.constant([gamma]), body.constant(np.arange(gamma)))
    length = body.op("ReduceMin", failed_at, body.constant([1]))
    if limited:
        length = body.op("Min", length, most)
    ids, count = body.call(settle(), drafted, p, q, length, body.constant([[1]], np.float32), final, most)
    return function(_name("accept_tokenwise", gamma, limited), inputs, {"ids": ids, "count": count}, body)


@cache
def accept_block(gamma: int, limited: bool = False) -> ir.Function:
    """The block as a whole (Sun et al. 2024, algorithm 2): `accept_block_{gamma}`, signature of `accept_tokenwise`.

    P_0 = 1, P_i = min(1, P_{i-1} p_i(x_i) / q_i(x_i)). A prefix of 0 < i < gamma tokens passes if u_i < h_i =
    Z_i / (Z_i + 1 - P_i), Z_i = sum of max(0, P_i p_{i+1} - q_{i+1}), and if both terms are 0; the whole block if
    u_gamma < P_gamma. The longest that passes is accepted: a failure at one length says nothing about longer ones.
    """
    body = Body()
    inputs, most = _inputs(body, gamma, limited)
    drafted, p, q, u = inputs[:4]
    judged, final = body.ops("Split", u, body.constant([gamma, 1]), outputs=2, axis=1)
    kept = _kept_masses(body, body.op("Div", *_drafted_masses(body, drafted, p, q, gamma)), gamma)
    numerator, denominator = _pass_odds(body, p, q, kept)
    passed = body.op("Less", body.op("Mul", judged, denominator), numerator)
    passed = body.op("Or", passed, body.op("LessOrEqual", denominator, body.constant([0], np.float32)))
    lengths = body.constant(np.arange(1, gamma + 1))
    if limited:
        whole = body.op("Less", judged, _row(body, kept))
        whole = body.op("And", whole, body.op("Equal", lengths, most))
        passed = body.op("Or", whole, body.op("And", passed, body.op("Less", lengths, most)))
    passed_at = body.op("Where", passed, lengths, body.constant([0]))
    length = body.op("ReduceMax", passed_at, body.constant([1]))
    pads, one = body.constant([1, 0]), body.constant(1, np.float32)
    from_none = body.op("Pad", _row(body, kept), pads, one, body.constant([1]))
    kept_there = body.op("Unsqueeze", body.op("GatherND", from_none, length, batch_dims=1), body.constant([1]))
    ids, count = body.call(settle(), drafted, p, q, length, kept_there, final, most)
    return function(_name("accept_block", gamma, limited), inputs, {"ids": ids, "count": count}, body)


ACCEPTANCES: Mapping[str, Callable[..., ir.Function]] = {"block": accept_block, "tokenwise": accept_tokenwise}


def accept_functions(acceptance: str, gamma: int, limited: bool = False) -> list[ir.Function]:
    """What a model that calls `ACCEPTANCES[acceptance](gamma, limited)` must hold."""
    return [ACCEPTANCES[acceptance](gamma, limited), settle(), draw(), pick()]


def _name(rule: str, gamma: int, limited: bool) -> str:
    return f"{rule}_{gamma}{'_limited' if limited else ''}"


def _inputs(body: Body, gamma: int, limited: bool) -> tuple[list[ir.Value], ir.Value]:
    """Inputs of a rule, and how many drafted tokens it judges, `[B, 1]` or `[1, 1]`."""
    inputs = [value(name) for name in _INPUTS]
    if not limited:
        return inputs, body.constant([[gamma]])
    limit = value("limit")
    return [*inputs, limit], body.op("Unsqueeze", limit, body.constant([1]))


def _drafted_masses(body: Body, drafted: ir.Value, p: ir.Value, q: ir.Value, gamma: int) -> tuple[ir.Value, ir.Value]:
    """p_i(x_i) and q_i(x_i), each `[B, gamma]`. The row after the last drafted token is read at id 0 and dropped."""
    axis = body.constant([2])
    padded = body.op("Pad", drafted, body.constant([0, 1]), None, body.constant([1]))
    mass_p = body.op("GatherND", p, body.op("Unsqueeze", padded, axis), batch_dims=2)
    mass_p, _ = body.ops("Split", mass_p, body.constant([gamma, 1]), outputs=2, axis=1)
    return mass_p, body.op("GatherND", q, body.op("Unsqueeze", drafted, axis), batch_dims=2)


def _kept_masses(body: Body, ratio: ir.Value, gamma: int) -> list[ir.Value]:
    """P_1 ... P_gamma, each `[B, 1]`: how much of a prefix's draft mass the verifier keeps."""
    one = body.constant([1], np.float32)
    first, *others = body.ops("Split", ratio, body.constant([1] * gamma), outputs=gamma, axis=1)
    kept = [body.op("Min", first, one)]
    for factor in others:
        kept.append(body.op("Min", body.op("Mul", kept[-1], factor), one))
    return kept


def _pass_odds(body: Body, p: ir.Value, q: ir.Value, kept: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Numerators and denominators of h_1 ... h_gamma, each `[B, gamma]`; those of the whole block are P_gamma and 1."""
    *prefixes, whole = kept
    one, axis = body.constant([[1]], np.float32), body.constant([1])
    if not prefixes:
        return whole, one
    rows = body.constant([1]), body.constant([len(kept)]), axis
    scale = _row(body, prefixes)
    verified = body.op("Mul", body.op("Slice", p, *rows), body.op("Unsqueeze", scale, body.constant([2])))
    residual = body.op("Relu", body.op("Sub", verified, body.op("Slice", q, *rows)))
    z = body.op("ReduceSum", residual, body.constant([2]), keepdims=0)
    left = body.op("Add", z, body.op("Sub", one, scale))
    return body.op("Concat", z, whole, axis=1), body.op(
        "Pad", left, body.constant([0, 1]), body.constant(1, np.float32), axis
    )


def _row(body: Body, columns: list[ir.Value]) -> ir.Value:
    """`[B, 1]` each to `[B, len(columns)]`."""
    return body.op("Concat", *columns, axis=1)
