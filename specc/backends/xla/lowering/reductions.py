"""Sums, extremes and running sums."""

from collections.abc import Callable

from specc.backends.xla.lowering.table import LOWERINGS, Call, Value, axes, lowers

_REDUCTIONS = {"ReduceMax": "max", "ReduceMean": "mean", "ReduceMin": "min", "ReduceProd": "prod", "ReduceSum": "sum"}


def _reduction(name: str) -> Callable[..., Value]:
    def lowering(call: Call, x: Value, which: Value = None) -> Value:
        over = () if which is None else axes(call.known(which, "axes"), x.ndim)
        if not over:
            if call.attribute("noop_with_empty_axes", 0):
                return x
            over = tuple(range(x.ndim))
        reduced = getattr(call.xp, name)(x, axis=over, keepdims=bool(call.attribute("keepdims", 1)))
        return reduced.astype(x.dtype)

    return lowering


LOWERINGS |= {("", op): _reduction(name) for op, name in _REDUCTIONS.items()}


@lowers("ArgMax", "ArgMin")
def arg_extreme(call: Call, x: Value) -> Value:
    """The first of equals, or with select_last_index the last."""
    axis, find = call.attribute("axis", 0), getattr(call.xp, call.node.op_type.lower())
    if not call.attribute("select_last_index", 0):
        return find(x, axis=axis, keepdims=bool(call.attribute("keepdims", 1)))
    last = find(call.xp.flip(x, axis), axis=axis, keepdims=bool(call.attribute("keepdims", 1)))
    return x.shape[axis] - 1 - last


@lowers("CumSum")
def _cumsum(call: Call, x: Value, axis: Value) -> Value:
    along = int(call.known(axis, "the axis").reshape(()))
    backwards = bool(call.attribute("reverse", 0))
    ordered = call.xp.flip(x, along) if backwards else x
    summed = call.xp.cumsum(ordered, axis=along).astype(x.dtype)
    if call.attribute("exclusive", 0):
        edge = [(1, 0) if i == along % x.ndim else (0, 0) for i in range(x.ndim)]
        kept = [slice(0, n) for n in x.shape]
        summed = call.xp.pad(summed, edge)[tuple(kept)]
    return call.xp.flip(summed, along) if backwards else summed
