"""A drafter that reads its verifier's features, as a core graph (EAGLE-3, Li et al. 2025)."""

import onnx_ir as ir

from specc.checkpoint.speculator import FeatureReading
from specc.core.building import Body, function, value
from specc.core.functions.features import feature_rows
from specc.models.layer import SHARED_INPUTS, LayerWeight, layer_body, layer_function, layer_weights
from specc.models.spec import DecoderSpec
from specc.models.step_graph import F32, DecoderShape, StepGraph, Tables
from specc.models.weights import WeightLoader
from specc_runtime.manifest import FEATURES


def build_feature_drafter(
    spec: DecoderSpec,
    reading: FeatureReading,
    loader: WeightLoader,
    role: str,
    shape: DecoderShape,
    tables: Tables,
    buffer_rows: int,
) -> ir.Model:
    """The core graph of a feature drafter: `build_decoder`'s, except for what cache row i holds.

    Row i holds the token *after* the verifier's row i together with the verifier's feature at row i; its logits are the
    law of the token after that. State past.features f32[B, buffer_rows, H] gives the features of the rows fed; the
    drafter's own output at the last of `rows` is left in the row after that one, to go with the token drafted there. No
    row asked for, or row -1: none written. spec: of the layers; the first reads embedding and feature side by side.
    Raises CheckpointError when a weight is missing or misshapen.
    """
    graph = StepGraph(spec, loader, role, shape, tables)
    past = graph.state(FEATURES, [shape.batch, buffer_rows, spec.hidden], F32)
    features = graph.call(feature_rows(), past, graph.position, graph.tokens)
    first, plain = feature_layer_function(spec, reading, role), layer_function(spec, role)
    hidden = graph.layer(first, 0, feature_layer_weights(spec), graph.embedded(), features)
    for number in range(1, spec.layers):
        hidden = graph.layer(plain, number, layer_weights(spec, number), hidden)
    asked = graph.asked(hidden)
    normed = graph.normed(asked)
    graph.leave(past, _predicted(graph, past, normed if reading.norm_output else asked))
    return graph.model(normed)


def feature_layer_weights(spec: DecoderSpec) -> list[LayerWeight]:
    """The weights of the first layer, in the order its function takes them."""
    prefix = spec.names.layer.format(layer=0)
    norm = LayerWeight("hidden_norm", "norm", ((f"{prefix}hidden_norm.weight", (spec.hidden,)),))
    return [norm, *layer_weights(spec, 0, columns=2 * spec.hidden)]


def feature_layer_function(spec: DecoderSpec, reading: FeatureReading, role: str) -> ir.Function:
    """The first layer: attention over embedding and feature, each normed; the feature goes on as the residual stream.

    `{role}_feature_layer(embedding[B, S, H], feature[B, S, H], past_key, past_value, position, position_ids, mask, cos,
    sin, weights...) -> (hidden, key, value)`.
    """
    body = Body()
    weights = {w.name: value(w.name) for w in feature_layer_weights(spec)}
    embedding, feature, past_key, past_value = (value(n) for n in ("embedding", "feature", "past_key", "past_value"))
    cached = [past_key, past_value, *(value(name) for name in SHARED_INPUTS)]

    def normed(x: ir.Value, weight: str) -> ir.Value:
        return body.op("RMSNormalization", x, weights[weight], axis=-1, epsilon=spec.epsilon)

    hidden = normed(feature, "hidden_norm")
    read = body.op("Concat", normed(embedding, "attention_norm"), hidden, axis=-1)
    residual = hidden if reading.norm_before_residual else feature
    outputs = layer_body(body, spec, residual, read, cached, weights)
    return function(f"{role}_feature_layer", [embedding, feature, *cached, *weights.values()], outputs, body)


def _predicted(graph: StepGraph, past: ir.Value, outputs: ir.Value) -> ir.Value:
    """The feature buffer with the last of `outputs` `[B, R, H]` in the row after the one it was asked for.

    Asked for row -1, as static programs are that are to leave no prediction, it keeps what it holds.
    """
    body = graph.body
    last = body.op("Slice", outputs, body.constant([-1]), body.constant([2**31 - 1]), body.constant([1]))
    asked = body.op("Concat", body.constant([-1]), graph.rows, axis=0)  # -1: there may be no rows at all
    row = body.op("ReduceMax", asked, body.constant([0]))
    after = body.op("Add", graph.position, body.op("Add", row, body.constant([1])))
    held = graph.call(feature_rows(), past, after, body.op("Unsqueeze", after, body.constant([1])))
    predicts = body.op("GreaterOrEqual", row, body.constant([0]))
    return body.op("TensorScatter", past, body.op("Where", predicts, last, held), after, axis=-2)
