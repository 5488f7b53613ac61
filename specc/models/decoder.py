"""A decoder as a core graph: a pure function of tokens, position and caches."""

from collections.abc import Iterable

import onnx_ir as ir

from specc.checkpoint.types import Weights
from specc.models.features import FeatureTap
from specc.models.layer import layer_function, layer_weights
from specc.models.spec import DecoderSpec
from specc.models.step_graph import DecoderShape, StepGraph, Tables, load_tables
from specc.models.weights import WeightLoader

__all__ = ["DecoderShape", "build_decoder"]


def build_decoder(
    spec: DecoderSpec,
    weights: Weights,
    source: str,
    role: str,
    shape: DecoderShape,
    weights_of: str | None = None,
    *,
    tables: Tables | None = None,
    taps: Iterable[FeatureTap] = (),
) -> ir.Model:
    """The core graph of one decoder.

    Inputs: tokens i64[B, S], position i64[B] (cache row of the first token), rows i64[R] (which of the S tokens'
    logits), depths i64[S] and block bool[S, S] (the topology, see core.topology), past.{i}.key and past.{i}.value
    [B, kv_heads, cache_rows, head_dim] of the state's dtype. Outputs: logits f32[B, R, V], present.{i}.key and .value.
    role: "verifier" or the drafter's key; prefixes the layer function's name and the weights'.
    weights_of: the role whose weights these are, if another's (a slice names them as the verifier does).
    tables: embedding and head, if they are not the checkpoint's own.
    taps: what feature drafters read; each adds state past.features.{drafter}, and the fed tokens' rows are written.
    Raises CheckpointError when a weight is missing or misshapen.
    """
    loader = WeightLoader(weights, source, f"{weights_of or role}.")
    graph = StepGraph(spec, loader, role, shape, tables or load_tables(spec, loader))
    layer = layer_function(spec, role)
    streams = [graph.embedded()]  # the residual stream before each layer, and after the last
    for number in range(spec.layers):
        streams.append(graph.layer(layer, number, layer_weights(spec, number), streams[-1]))
    for tap in taps:
        tap.record(graph, streams)
    return graph.model(graph.normed(graph.asked(streams[-1])))
