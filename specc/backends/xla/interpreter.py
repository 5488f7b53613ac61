"""Evaluating a core graph with JAX values: called while JAX traces, it turns the graph into a JAX program."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from specc.backends.xla.layer_runs import find_runs
from specc.backends.xla.lowering import LOWERINGS
from specc.backends.xla.lowering.table import Call, Value
from specc.backends.xla.machine import CPU, Machine
from specc.backends.xla.parts import FirstRows, Packed, Part, plain
from specc.backends.xla.scan import scan_run
from specc.core import DOMAIN
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.errors import LegalizeError

Environment = dict[ir.Value, Value]
Attributes = Mapping[str, ir.Attr]

# Ops that take a layer's part of a stacked array, or a table's first rows, as such; (op, input).
_TAKES_PARTS: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("", "Cast"): (0,),
    ("", "CastLike"): (1,),
    ("", "Shape"): (0,),
    ("", "Size"): (0,),
    ("", "Split"): (0,),
    ("", "TensorScatter"): (0,),
    (DOMAIN, LINEAR): (1,),
    (DOMAIN, LINEAR_Q8): (1, 2),
}


_PIECE_BY_PIECE = ("Add", "CastLike")  # ops that take packed values, and leave them packed


class Interpreter:
    """Evaluates the graph of one model, calls of its functions included.

    Runs of equal layers become one `lax.scan` where their weights and caches are parts of stacked arrays.
    """

    def __init__(self, model: ir.Model, machine: Machine = CPU) -> None:
        self._model = model
        self._machine = machine
        check_lowerable(model)

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Outputs by name, for values of the graph's inputs and initializers by name; others are read."""
        graph = self._model.graph
        environment: Environment = {}
        for value in (*graph.inputs, *graph.initializers.values()):
            name = str(value.name)
            if name in inputs:
                environment[value] = inputs[name]
            elif value.const_value is not None:
                environment[value] = value.const_value.numpy()
        self._evaluate(graph, environment, {})
        return {str(value.name): environment[value] for value in graph.outputs}

    def _evaluate(self, scope: Iterable[ir.Node], environment: Environment, attributes: Attributes) -> None:
        for run in find_runs(list(scope), self._model.functions):
            evaluate = partial(self._node, attributes=attributes)
            if len(run) == 1 or not scan_run(run, environment, evaluate):
                for node in run:
                    evaluate(node, environment)

    def _node(self, node: ir.Node, environment: Environment, attributes: Attributes) -> None:
        inputs = [None if value is None else environment[value] for value in node.inputs]
        outputs = self._call(node, inputs, attributes)
        for value, made in zip(node.outputs, outputs, strict=False):
            environment[value] = made

    def _call(self, node: ir.Node, inputs: Sequence[Value], attributes: Attributes) -> Sequence[Value]:
        resolved = {
            name: attributes[str(attr.ref_attr_name)] if attr.is_ref() else attr
            for name, attr in node.attributes.items()
            if not attr.is_ref() or str(attr.ref_attr_name) in attributes
        }
        body = partial(self._inline, node, resolved)
        lowering = LOWERINGS.get((node.domain, node.op_type))
        if lowering is None:
            return body(*inputs)
        if node.op_type in _PIECE_BY_PIECE and all(isinstance(v, Packed) for v in inputs):
            pieces = zip(*(v.pieces for v in inputs), strict=True)
            return [Packed(tuple(self._call(node, piece, attributes)[0] for piece in pieces), axis=-1)]
        given = _given(node, inputs)
        xp: Any = jnp if any(isinstance(v, jax.Array | Part | FirstRows | Packed) for v in given) else np
        made = lowering(Call(node, resolved, xp, self._machine, body), *given)
        outputs = made if isinstance(made, tuple) else (made,)
        return [np.asarray(v) for v in outputs] if xp is np and not _traced(outputs) else outputs

    def _inline(self, node: ir.Node, attributes: Attributes, *inputs: Value) -> Sequence[Value]:
        function = self._model.functions[node.op_identifier()]
        defaults = {name: attr for name, attr in function.attributes.items() if attr.value is not None}
        environment = dict(zip(function.inputs, inputs, strict=True))
        self._evaluate(function, environment, {**defaults, **attributes})
        return [environment[value] for value in function.outputs]


def check_lowerable(model: ir.Model) -> None:
    """Raises LegalizeError, listing every op of `model` that is neither in the table nor a function of the model."""
    scopes = [model.graph, *model.functions.values()]
    found = {(node.domain, node.op_type, node.op_identifier()) for scope in scopes for node in scope}
    unknown = sorted(
        f"{domain}.{op}" if domain else op
        for domain, op, identifier in found
        if (domain, op) not in LOWERINGS and identifier not in model.functions
    )
    if unknown:
        raise LegalizeError(
            f"xla: no lowering for {', '.join(unknown)} in '{model.graph.name}'; add it to specc/backends/xla/lowering/"
        )


def _given(node: ir.Node, inputs: Sequence[Value]) -> list[Value]:
    kept = _TAKES_PARTS.get((node.domain, node.op_type), ())
    return [v if i in kept else plain(v) for i, v in enumerate(inputs)]


def _traced(values: Sequence[Value]) -> bool:
    return any(isinstance(v, jax.Array | Part | Packed) for v in values)
