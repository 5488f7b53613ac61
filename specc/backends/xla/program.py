"""One program before it is compiled: a function of flat arguments, and what each argument is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as ir

from specc.backends.record import CoreModel, tensor_spec
from specc.backends.xla.interpreter import Interpreter
from specc.backends.xla.layout import Layout, StateStack, bound_state, left_state, state_stacks
from specc.backends.xla.machine import Machine
from specc.backends.xla.mesh import AnyMesh, sharding
from specc.core.state_names import left_by
from specc.passes.bake_topology import bake_topology
from specc.passes.set_width import set_width
from specc_runtime.engines.xla_devices import Spec, sizes
from specc_runtime.manifest import StateSpec, TensorSpec, WeightSpec

Value = Any
_NARROWED = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


@dataclass(frozen=True)
class FlatProgram:
    """function takes inputs, state and weights, in this order, and gives outputs, then state.

    Every state argument is given up to the program, which writes it in place.
    """

    inputs: tuple[TensorSpec, ...]
    state: tuple[StateSpec, ...]
    weights: tuple[WeightSpec, ...]
    outputs: tuple[TensorSpec, ...]
    function: Callable[..., tuple[Value, ...]]

    @property
    def donated(self) -> tuple[int, ...]:
        """Numbers of the state arguments."""
        return tuple(range(len(self.inputs), len(self.inputs) + len(self.state)))

    def arguments(self, mesh: AnyMesh | None = None) -> list[Any]:
        """Shape and dtype of each argument, and how the devices of `mesh` hold it."""
        specs: list[Spec] = [*self.inputs, *self.state, *self.weights]
        abstract: Callable[..., Any] = jax.ShapeDtypeStruct
        return [
            abstract(
                sizes(spec),
                jnp.dtype(spec.dtype),
                sharding=None if mesh is None else sharding(spec, mesh),
            )
            for spec in specs
        ]

    def jitted(self, mesh: AnyMesh | None = None) -> Any:
        """The function for JAX to lower, no argument left out; what it leaves of its state is held as the state was."""
        given: dict[str, Any] = {"donate_argnums": self.donated, "keep_unused": True}
        if mesh is not None:
            left: list[Spec] = [*self.outputs, *self.state]
            given["out_shardings"] = tuple(sharding(spec, mesh) for spec in left)
        return jax.jit(self.function, **given)


@dataclass(frozen=True)
class Owned:
    """A decoder's part in a graph: its state arguments, and what their names start with there."""

    stacks: tuple[StateStack, ...]
    prefix: str = ""

    def specs(self) -> list[StateSpec]:
        """The state arguments under their names in the graph."""
        return [
            replace(stack.spec, name=self.prefix + stack.spec.name, output=self.prefix + stack.spec.output)
            for stack in self.stacks
        ]


def step_program(core: CoreModel, layout: Layout, machine: Machine, width: int, rows: int) -> FlatProgram:
    """A decoder fed `width` tokens, giving `rows` rows of logits. The topology is a chain."""
    graph = bake_topology(set_width(core.graph, width, rows), None)
    return flat_program(graph, [Owned(tuple(state_stacks(core, layout.shares)))], layout, machine)


def flat_program(graph: ir.Model, owned: Sequence[Owned], layout: Layout, machine: Machine) -> FlatProgram:
    """`graph` as a function of flat arguments."""
    interpreter = Interpreter(graph, machine)
    caches = {owner.prefix + name for owner in owned for stack in owner.stacks for name in stack.members}
    inputs = [tensor_spec(value) for value in graph.graph.inputs if value.name not in caches]
    present = set(map(left_by, caches))
    outputs = [tensor_spec(v) for v in graph.graph.outputs if v.name not in present and not _is_between(v)]
    state = [spec for owner in owned for spec in owner.specs()]
    weights = layout.weights(graph.graph)

    def function(*arguments: Value) -> tuple[Value, ...]:
        fed, past, stored = _split(arguments, len(inputs), len(state))
        given = {spec.name: value for spec, value in zip(inputs, fed, strict=True)}
        buffers = iter(past)
        for owner in owned:
            for stack in owner.stacks:
                given |= bound_state(stack, next(buffers), owner.prefix)
        made = interpreter.run(given | layout.bound(graph.graph, weights, stored))
        left = [left_state(stack, made, owner.prefix) for owner in owned for stack in owner.stacks]
        return (*(jnp.asarray(made[spec.name]) for spec in outputs), *left)

    return FlatProgram(tuple(map(_narrowed, inputs)), tuple(state), weights, tuple(map(_narrowed, outputs)), function)


def _split(arguments: Sequence[Value], inputs: int, state: int) -> tuple[Sequence[Value], ...]:
    return arguments[:inputs], arguments[inputs : inputs + state], arguments[inputs + state :]


def _is_between(value: ir.Value) -> bool:
    """Whether an output only shows a cache between a round's steps, for engines that bind memory by name."""
    return ".after_" in str(value.name)


def _narrowed(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype=_NARROWED.get(spec.dtype, spec.dtype))
