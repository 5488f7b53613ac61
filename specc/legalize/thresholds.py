"""Top-k and top-p thresholds for GPUs: sixteen candidates a pass instead of one.

The core form takes 32 passes, one after the other, each a comparison and a sum; TensorRT's compiler does not get
through such a chain in ten minutes, and elsewhere each pass is a launch. Eight passes over sixteen candidates each find
the same threshold.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.building import Body
from specc.core.functions.thresholds import HIGHEST_THRESHOLD, MANTISSA_BITS, SMALLEST
from specc.core.inspection import inputs_of
from specc.legalize.rewriting import rewrites

_BITS = 4  # found by one pass
_CANDIDATES = 2**_BITS


@rewrites(HIGHEST_THRESHOLD, on="migraphx")
@rewrites(HIGHEST_THRESHOLD, on="tensorrt")
def highest_threshold(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    """Two passes for the exponent, each by powers of two, and six for the mantissa, each by equal steps."""
    search = _Search(body, node)
    steps = np.arange(_CANDIDATES)
    threshold = search.highest(body.constant(SMALLEST * 2.0 ** (_CANDIDATES * steps)[:, None], np.float32))
    power = search.highest(search.scaled(threshold, 2.0**steps))
    threshold = power
    for bit in range(_BITS, MANTISSA_BITS + _BITS, _BITS):
        last = min(bit, MANTISSA_BITS)
        count = 2 ** (last - bit + _BITS)
        increments = search.scaled(power, np.arange(count) * 2.0**-last)
        threshold = search.highest(body.op("Add", search.column(threshold), increments))
    return [threshold]


class _Search:
    """Values `[B, R, V]` and their weights, set up for candidates `[..., K, 1]`."""

    def __init__(self, body: Body, node: ir.Node) -> None:
        self._body = body
        values, weights, needed = inputs_of(node)
        self._values = body.op("Unsqueeze", values, body.constant([2]))
        self._weights = body.op("Unsqueeze", weights, body.constant([-2]))  # [B, R, 1, V], or [1, 1] for weight 1
        self._needed = body.op("Unsqueeze", needed, body.constant([2]))

    def highest(self, candidates: ir.Value) -> ir.Value:
        """The largest candidate that enough weight reaches, `[B, R, 1]`; 0 if none."""
        body = self._body
        reached = body.op("Cast", body.op("GreaterOrEqual", self._values, candidates), to=ir.DataType.FLOAT)
        weight = body.op("ReduceSum", body.op("Mul", reached, self._weights), body.constant([-1]))
        kept = body.op("Where", body.op("GreaterOrEqual", weight, self._needed), candidates, self._zero())
        return body.op("ReduceMax", kept, body.constant([2]), keepdims=0)

    def scaled(self, threshold: ir.Value, factors: NDArray[np.float64]) -> ir.Value:
        """Multiples of `threshold`, `[B, R, K, 1]`."""
        return self._body.op("Mul", self.column(threshold), self._body.constant(factors[:, None], np.float32))

    def column(self, threshold: ir.Value) -> ir.Value:
        return self._body.op("Unsqueeze", threshold, self._body.constant([2]))

    def _zero(self) -> ir.Value:
        return self._body.constant([0], np.float32)
