"""The rows of a feature buffer that a drafter's tokens go with."""

from functools import cache

import onnx_ir as ir

from specc.core.building import Body, function, value

FEATURE_ROWS = "feature_rows"


@cache
def feature_rows() -> ir.Function:
    """`feature_rows(features[B, C, H], position i64[B], tokens[B, S]) -> rows[B, S, H]`: S rows from `position` on."""
    body = Body()
    features, position, tokens = value("features"), value("position"), value("tokens")
    width = body.op("Squeeze", body.op("Shape", tokens, start=1, end=2), body.constant([0]))
    steps = body.op("Range", body.constant(0), width, body.constant(1))
    places = body.op("Add", body.op("Unsqueeze", position, body.constant([1])), steps)
    rows = body.op("GatherND", features, body.op("Unsqueeze", places, body.constant([2])), batch_dims=1)
    return function(FEATURE_ROWS, [features, position, tokens], {"rows": rows}, body)
