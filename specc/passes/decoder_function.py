"""A decoder's graph as a model-local function, so that one graph can call it more than once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from specc.core import DOMAIN
from specc.core.building import Body
from specc.core.state_names import PAST, PRESENT, is_past

State = Mapping[str, ir.Value]
"""Caches by name ("0.key")."""


@dataclass(frozen=True)
class DecoderFunction:
    """A decoder to be called, each call with widths of its own.

    function: takes `inputs`, then `weights`. inputs, outputs: names, dtypes and shapes of the graph it was made from.
    """

    function: ir.Function
    inputs: Sequence[ir.Value]
    outputs: Sequence[ir.Value]
    weights: Sequence[ir.Value]

    def caches(self) -> State:
        """The cache inputs of the graph it was made from."""
        return {str(v.name).removeprefix(PAST): v for v in self.inputs if is_past(v.name)}

    def call(self, body: Body, state: State, **controls: ir.Value) -> tuple[ir.Value, State]:
        """Record a call; logits and the caches it leaves. controls: tokens, position, rows, depths, block."""
        given = controls | {PAST + name: cache for name, cache in state.items()}
        made = body.call(self.function, *(given[str(v.name)] for v in self.inputs), *self.weights)
        named = {str(like.name): value for like, value in zip(self.outputs, made, strict=True)}
        logits = named.pop("logits")
        left = {name.removeprefix(PRESENT): value for name, value in named.items()}
        for name, cache in left.items():
            cache.shape, cache.type = state[name].shape, state[name].type
        return logits, left


def as_function(model: ir.Model, name: str, weights: dict[str, ir.Value]) -> DecoderFunction:
    """The graph of `model` as function `name`; the model stays as it is.

    weights: initializers for the calls, by name: those already there are shared, the others are added.
    Raises ValueError: two models have different initializers of one name.
    """
    graph = model.graph.clone()
    inputs = list(graph.inputs)
    used = list(graph.initializers.values())
    for weight in used:
        _share(weight, weights)
        del graph.initializers[str(weight.name)]
        weight.const_value = None
        graph.inputs.append(weight)
    for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
        value.shape = value.type = None  # each call has widths of its own
    return DecoderFunction(
        function=ir.Function(DOMAIN, name, graph=graph, attributes=[]),
        inputs=model.graph.inputs[: len(inputs)],
        outputs=list(model.graph.outputs),
        weights=[weights[str(weight.name)] for weight in used],
    )


def _share(weight: ir.Value, weights: dict[str, ir.Value]) -> None:
    name = str(weight.name)
    copy = ir.Value(name=name, shape=weight.shape, type=weight.type, const_value=weight.const_value)
    copy.metadata_props.update(weight.metadata_props)
    shared = weights.setdefault(name, copy)
    if (shared.shape, shared.type) != (copy.shape, copy.type):
        found = " and ".join(f"{v.type} {v.shape}" for v in (shared, copy))
        raise ValueError(f"two models have initializers '{name}' that differ: {found}")
