"""Attention in 16 bits: computed in the dtype its caches are stored in."""

import onnx_ir as ir

from specc.core import DOMAIN
from specc.core.building import Body
from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM
from specc.core.inspection import inputs_of


def narrow_attention(model: ir.Model) -> ir.Model:
    """q is cast to the caches' dtype instead of the caches to q's.

    `Attention(q, CastLike(key, q), CastLike(value, q), mask)` becomes
    `CastLike(Attention(CastLike(q, key), key, value, mask), q)` in every cached attention of the model, so that softmax
    and products run in 16 bits where keys and values are stored in 16. With fp32 caches nothing changes but the casts.
    """
    for name in (ATTENTION, ATTENTION_QK_NORM):
        function = model.functions.get((DOMAIN, name, ""))
        if function is None:
            continue
        for node in list(function):
            if (node.domain, node.op_type) == ("", "Attention"):
                _narrow(function, node)
    return model


def _narrow(function: ir.Function, node: ir.Node) -> None:
    q, *wide, mask = inputs_of(node)
    key, value = (_stored(cache) for cache in wide)
    body = Body()
    scale = node.attributes["scale"]
    mixed = body.op("Attention", body.op("CastLike", q, key), key, value, mask, scale=scale)
    y = body.op("CastLike", mixed, q)
    function.insert_before(node, body.nodes)
    node.outputs[0].replace_all_uses_with(y)
    function.remove(node, safe=True)
    for cache in wide:
        cast = cache.producer()
        if cast is not None and not cache.uses():
            function.remove(cast, safe=True)


def _stored(cache: ir.Value) -> ir.Value:
    """What a widened cache was cast from."""
    cast = cache.producer()
    if cast is None or cast.op_type != "CastLike":
        raise ValueError(f"attention reads '{cache.name}', which is no widened cache; it was narrowed already")
    return inputs_of(cast)[0]
