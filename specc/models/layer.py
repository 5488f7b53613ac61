"""One decoder layer as a model-local function, and the weights it takes."""

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from specc.core.building import Body, function, value
from specc.core.functions.attention import attention, attention_qk_norm
from specc.core.functions.linear import linear
from specc.models.spec import DecoderSpec

SHARED_INPUTS = ("position", "position_ids", "mask", "cos", "sin")


@dataclass(frozen=True)
class LayerWeight:
    """One weight input of a layer: its name, its precision part, and the checkpoint tensors stacked in it."""

    name: str
    part: str
    sources: tuple[tuple[str, tuple[int, ...]], ...]


def layer_weights(spec: DecoderSpec, layer: int, columns: int | None = None) -> Iterator[LayerWeight]:
    """The weights of layer `layer`, in the order the layer function takes them; q, k, v and gate, up are packed.

    columns: how many q, k and v read; None: the hidden size.
    """
    a, m, names, hidden = spec.attention, spec.mlp, spec.names, spec.hidden
    columns = hidden if columns is None else columns
    prefix = names.layer.format(layer=layer)
    query, keys = a.heads * a.head_dim, a.kv_heads * a.head_dim

    def stacked(name: str, part: str, *sources: tuple[str, tuple[int, ...]]) -> LayerWeight:
        return LayerWeight(name, part, tuple((prefix + source, shape) for source, shape in sources))

    qkv = ((names.query, query), (names.key, keys), (names.value, keys))
    gate_up = ((names.gate, m.intermediate), (names.up, m.intermediate))
    yield stacked("attention_norm", "norm", (f"{names.attention_norm}.weight", (hidden,)))
    yield stacked("qkv", "attention", *((f"{n}.weight", (rows, columns)) for n, rows in qkv))
    if a.qkv_bias:
        yield stacked("qkv_bias", "norm", *((f"{n}.bias", (rows,)) for n, rows in qkv))
    if a.qk_norm:
        yield stacked("query_norm", "norm", (f"{names.query_norm}.weight", (a.head_dim,)))
        yield stacked("key_norm", "norm", (f"{names.key_norm}.weight", (a.head_dim,)))
    yield stacked("output", "attention", (f"{names.output}.weight", (hidden, query)))
    if a.output_bias:
        yield stacked("output_bias", "norm", (f"{names.output}.bias", (hidden,)))
    yield stacked("mlp_norm", "norm", (f"{names.mlp_norm}.weight", (hidden,)))
    yield stacked("gate_up", "mlp", *((f"{n}.weight", (rows, hidden)) for n, rows in gate_up))
    if m.bias:
        yield stacked("gate_up_bias", "norm", *((f"{n}.bias", (rows,)) for n, rows in gate_up))
    yield stacked("down", "mlp", (f"{names.down}.weight", (hidden, m.intermediate)))
    if m.bias:
        yield stacked("down_bias", "norm", (f"{names.down}.bias", (hidden,)))


def layer_function(spec: DecoderSpec, role: str) -> ir.Function:
    """A decoder layer: pre-norm attention and gated MLP, each added to the residual stream.

    `{role}_layer(hidden[B, S, H], past_key, past_value, position, position_ids, mask, cos, sin, weights...)
    -> (hidden, key, value)`.
    """
    body = Body()
    weights = {w.name: value(w.name) for w in layer_weights(spec, 0)}
    hidden, past_key, past_value = value("hidden"), value("past_key"), value("past_value")
    shared = [value(name) for name in SHARED_INPUTS]
    normed = body.op("RMSNormalization", hidden, weights["attention_norm"], axis=-1, epsilon=spec.epsilon)
    outputs = layer_body(body, spec, hidden, normed, [past_key, past_value, *shared], weights)
    return function(f"{role}_layer", [hidden, past_key, past_value, *shared, *weights.values()], outputs, body)


def layer_body(
    body: Body,
    spec: DecoderSpec,
    residual: ir.Value,
    read: ir.Value,
    cached: list[ir.Value],
    weights: dict[str, ir.Value],
) -> dict[str, ir.Value]:
    """Record what a layer does once its input is normed: outputs hidden_out, key and value.

    residual: f32[B, S, H], the stream that is added to. read: f32[B, S, K], what q, k and v are made of.
    cached: past_key, past_value and SHARED_INPUTS. weights: by name.
    """
    mixed, key, value_ = _attention(body, spec, read, cached, weights)
    stream = body.op("Add", residual, mixed)
    out = body.op("Add", stream, _mlp(body, spec, stream, weights))
    return {"hidden_out": out, "key": key, "value": value_}


def _attention(
    body: Body, spec: DecoderSpec, read: ir.Value, cached: list[ir.Value], weights: dict[str, ir.Value]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    a = spec.attention
    qkv = _linear(body, read, weights, "qkv")
    sizes = {"heads": a.heads, "kv_heads": a.kv_heads, "head_dim": a.head_dim, "scale": a.scale}
    if a.qk_norm:
        norms = weights["query_norm"], weights["key_norm"]
        mixed, key, value_ = body.call(attention_qk_norm(), qkv, *cached, *norms, **sizes, epsilon=spec.epsilon)
    else:
        mixed, key, value_ = body.call(attention(), qkv, *cached, **sizes)
    return _linear(body, mixed, weights, "output"), key, value_


def _mlp(body: Body, spec: DecoderSpec, stream: ir.Value, weights: dict[str, ir.Value]) -> ir.Value:
    normed = body.op("RMSNormalization", stream, weights["mlp_norm"], axis=-1, epsilon=spec.epsilon)
    gate, up = body.ops("Split", _linear(body, normed, weights, "gate_up"), outputs=2, axis=-1, num_outputs=2)
    activated = body.op("Mul", gate, body.op("Sigmoid", gate))
    return _linear(body, body.op("Mul", activated, up), weights, "down")


def _linear(body: Body, x: ir.Value, weights: dict[str, ir.Value], name: str) -> ir.Value:
    (y,) = body.call(linear(), x, weights[name])
    bias = weights.get(f"{name}_bias")
    return y if bias is None else body.op("Add", y, body.op("CastLike", bias, y))
