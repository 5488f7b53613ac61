"""Token embedding."""

from functools import cache

import onnx_ir as ir

from specc.core.building import Body, function, value

EMBED = "embed"


@cache
def embed() -> ir.Function:
    """`embed(table[V, H], tokens i64[B, S]) -> hidden f32[B, S, H]`, a table stored in 16 bits widened row by row."""
    body = Body()
    table, tokens = value("table"), value("tokens")
    rows = body.op("Gather", table, tokens, axis=0)
    hidden = body.op("Cast", rows, to=ir.DataType.FLOAT)
    return function(EMBED, [table, tokens], {"hidden": hidden}, body)
