"""What holds of a core graph between any two passes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from specc.core import DOMAIN


def broken_invariants(model: ir.Model) -> Iterator[str]:
    """A sentence for each invariant that `model` breaks.

    1. Inputs, outputs and initializers have a name, a dtype and a shape; initializers have values.
    2. No two values of the graph share a name.
    3. Every cache input `past.X` has an output `present.X` of equal shape and dtype, and the other way round.
    4. Every call of domain `specc` names a function of the model and fits its inputs and outputs.
    """
    yield from _untyped(model.graph)
    yield from _repeated_names(model.graph)
    yield from _unpaired_caches(model.graph)
    yield from _bad_calls(model)


def _untyped(graph: ir.Graph) -> Iterator[str]:
    for value in (*graph.inputs, *graph.outputs, *graph.initializers.values()):
        if not value.name or value.dtype is None or value.shape is None:
            yield f"'{value.name}' lacks a name, dtype or shape"
    for name, value in graph.initializers.items():
        if value.const_value is None:
            yield f"initializer '{name}' has no values"


def _repeated_names(graph: ir.Graph) -> Iterator[str]:
    made = [v for node in graph for v in node.outputs]
    names = Counter(v.name for v in (*graph.inputs, *graph.initializers.values(), *made) if v.name)
    yield from (f"{count} values are named '{name}'" for name, count in names.items() if count > 1)


def _unpaired_caches(graph: ir.Graph) -> Iterator[str]:
    past, present = _caches(graph.inputs, "past"), _caches(graph.outputs, "present")
    for name in sorted(past.keys() | present.keys()):
        before, after = past.get(name), present.get(name)
        if before is None or after is None:
            yield f"cache '{name}' has no {'input' if before is None else 'output'}"
        elif (before.shape, before.dtype) != (after.shape, after.dtype):
            yield f"cache '{name}' goes in as {before.dtype}{before.shape} and comes out as {after.dtype}{after.shape}"


def _caches(values: Sequence[ir.Value], kind: str) -> Mapping[str, ir.Value]:
    """Caches by their name without the word `kind`, which may follow an owner's name."""
    found = {}
    for value in values:
        words = str(value.name).split(".")
        if kind in words:
            words.remove(kind)
            found[".".join(words)] = value
    return found


def _bad_calls(model: ir.Model) -> Iterator[str]:
    scopes = (model.graph, *model.functions.values())
    for node in (node for scope in scopes for node in scope if node.domain == DOMAIN):
        function = model.functions.get(node.op_identifier())
        if function is None:
            yield f"a call of '{node.op_type}', which is no function of the model"
        elif (len(node.inputs), len(node.outputs)) != (len(function.inputs), len(function.outputs)):
            yield f"a call of '{node.op_type}' does not fit its inputs and outputs"
