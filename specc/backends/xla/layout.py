"""What a program takes as arguments: weights and caches of equal layers stacked, everything else alone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import onnx_ir as ir

from specc.backends.record import CoreModel
from specc.backends.xla.layer_runs import MIN_LAYERS, Run, find_runs
from specc.backends.xla.parts import FirstRows, Packed, Part
from specc.backends.xla.sharing import Shares
from specc.core.initializers import stored_name
from specc.core.inspection import static_shape
from specc.core.state_names import PAST, left_by
from specc_runtime.manifest import LAYER, StateSpec, WeightSpec

Value = Any
FEW_ROWS_LESS = 0.9  # a table's first rows are read from the whole table if they are this share of it, or more

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class Stack:
    """Values of consecutive layers: their names with LAYER for the number, the first layer, and how many."""

    names: str
    first: int
    count: int

    def name(self, number: int) -> str:
        """Of the value that is `number`-th in the stack."""
        return self.names.replace(LAYER, str(self.first + number))

    def members(self) -> list[str]:
        """The names of all."""
        return [self.name(number) for number in range(self.count)]


@dataclass(frozen=True)
class StateStack:
    """One state argument: a stack of caches, or a single buffer. members: the graph's names of its inputs."""

    spec: StateSpec
    members: tuple[str, ...]


class Layout:
    """How the weights of some core graphs become arguments. Graphs that share a weight share the argument.

    A drafter that is the verifier's first layers thus reads them out of the verifier's stacks.
    shares: how several devices share what the programs take.
    """

    def __init__(self, cores: Iterable[CoreModel], shares: Shares | None = None) -> None:
        self.shares = shares
        self._stacks: dict[str, Stack] = {}
        self._tables: dict[str, tuple[int, ...]] = {}
        for core in cores:
            self._tables |= {
                n: static_shape(v) for n, v in core.graph.graph.initializers.items() if n == stored_name(v)
            }
            for stack in _weight_stacks(core):
                known = self._stacks.get(stack.names)
                if known is None or stack.count > known.count:
                    self._stacks[stack.names] = stack
        self._of = {name: (stack, i) for stack in self._stacks.values() for i, name in enumerate(stack.members())}

    def weights(self, graph: ir.Graph) -> tuple[WeightSpec, ...]:
        """The weight arguments of a program of `graph`, in order."""
        found: dict[str, WeightSpec] = {}
        for value in graph.initializers.values():
            for spec in self._specs(value):
                found.setdefault(_key(spec), spec)
        return tuple(found.values())

    def bound(self, graph: ir.Graph, weights: Sequence[WeightSpec], arguments: Sequence[Value]) -> dict[str, Value]:
        """The value of each initializer of `graph`, by name, for the arguments of a program."""
        given = {_key(spec): argument for spec, argument in zip(weights, arguments, strict=True)}
        return {str(value.name): self._value(value, given) for value in graph.initializers.values()}

    def _specs(self, value: ir.Value) -> tuple[WeightSpec, ...]:
        spec = self._spec(value)
        return (spec,) if self.shares is None else self.shares.weights(spec)

    def _spec(self, value: ir.Value) -> WeightSpec:
        name, shape, dtype = str(value.name), static_shape(value), _dtype(value)
        if name in self._of:
            stack, _ = self._of[name]
            return WeightSpec(stack.names, dtype, (stack.count, *shape), stack.first)
        if self._reads_whole_table(value):
            shape = self._tables[stored_name(value)]
        return WeightSpec(stored_name(value), dtype, shape)

    def _value(self, value: ir.Value, given: Mapping[str, Value]) -> Value:
        pieces = [self._piece(value, key, given[key]) for key in map(_key, self._specs(value))]
        return pieces[0] if len(pieces) == 1 else Packed(tuple(pieces), axis=0)

    def _piece(self, value: ir.Value, key: str, argument: Value) -> Value:
        if (known := self._of.get(str(value.name))) is not None:
            return Part(argument, known[1], key)
        return FirstRows(argument, static_shape(value)[0]) if self._reads_whole_table(value) else argument

    def _reads_whole_table(self, value: ir.Value) -> bool:
        table = self._tables.get(stored_name(value))
        return table is not None and table[0] > static_shape(value)[0] >= FEW_ROWS_LESS * table[0]


def state_stacks(core: CoreModel, shares: Shares | None = None) -> Iterator[StateStack]:
    """The state arguments of a core graph, as devices share them: caches of a run of layers as one."""
    for stack in _state_stacks(core):
        yield stack if shares is None else replace(stack, spec=shares.state(core, stack.spec))


def _state_stacks(core: CoreModel) -> Iterator[StateStack]:
    specs = {spec.name: spec for spec in core.state()}
    stacks = {name: stack for stack in _stacks(core, specs.keys()) for name in stack.members()}
    for name, spec in specs.items():
        stack = stacks.get(name)
        if stack is None:
            yield StateStack(spec, (name,))
        elif name == stack.name(0):
            yield StateStack(_stacked(spec, stack), tuple(stack.members()))


def _stacked(spec: StateSpec, stack: Stack) -> StateSpec:
    name = stack.names.replace(LAYER, f"{stack.first}-{stack.first + stack.count - 1}")
    part = name.removeprefix(PAST)
    return replace(spec, name=name, output=left_by(name), role=f"layers.{part}", shape=(stack.count, *spec.shape))


def bound_state(stack: StateStack, argument: Value, prefix: str = "") -> dict[str, Value]:
    """The value of each cache of a graph, by the graph's name, for a state argument."""
    if len(stack.members) == 1:
        return {prefix + stack.members[0]: argument}
    origin = prefix + stack.spec.name
    return {prefix + name: Part(argument, i, origin, state=True) for i, name in enumerate(stack.members)}


def left_state(stack: StateStack, outputs: Mapping[str, Value], prefix: str = "") -> Value:
    """What a program leaves of a state argument."""
    left = [outputs[prefix + left_by(name)] for name in stack.members]
    if len(left) == 1:
        return left[0]
    if all(isinstance(part, Part) and part.stack is left[0].stack for part in left):
        return left[0].stack
    return jnp.stack([part.read() if isinstance(part, Part) else part for part in left])


def _weight_stacks(core: CoreModel) -> Iterator[Stack]:
    yield from _stacks(core, core.graph.graph.initializers.keys())


def _stacks(core: CoreModel, names: Iterable[str]) -> Iterator[Stack]:
    """The operands of the core's runs of layers that are among `names`."""
    wanted = set(names)
    for run in find_runs(list(core.graph.graph), core.graph.functions):
        if len(run) >= MIN_LAYERS:
            for i in range(len(run[0].inputs)):
                stack = _stack(run, i)
                if stack is not None and wanted.issuperset(stack.members()):
                    yield stack


def _stack(run: Run, i: int) -> Stack | None:
    """Input `i` of the calls of a run, if their names count up and their shapes are equal."""
    values = [node.inputs[i] for node in run]
    first = values[0]
    if first is None or any(v is None or (v.shape, v.type) != (first.shape, first.type) for v in values):
        return None
    number = _NUMBER.search(str(first.name))
    if number is None:
        return None
    names = str(first.name)[: number.start()] + LAYER + str(first.name)[number.end() :]
    stack = Stack(names, int(number[0]), len(run))
    return stack if stack.members() == [str(v.name) for v in values if v is not None] else None


def _dtype(value: ir.Value) -> str:
    if value.dtype is None:
        raise ValueError(f"weight '{value.name}' has no dtype")
    return str(value.dtype.numpy())


def _key(spec: WeightSpec) -> str:
    return f"{spec.source}[{spec.shape[0] if spec.shape else ''}] from {spec.start}"
