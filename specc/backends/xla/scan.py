"""A run of equal layers as one loop over their stacked weights and caches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import onnx_ir as ir
from jax import lax

from specc.backends.xla.layer_runs import Run
from specc.backends.xla.parts import Packed, Part, leaves

Value = Any
Environment = dict[ir.Value, Value]
Evaluate = Callable[[ir.Node, Environment], None]


@dataclass(frozen=True)
class _Operands:
    """What the calls of a run are given, by input number.

    stream: outputs of the call before, by the number of the output. parts: of stacked arrays, from the layer that the
    first call takes on. Everything else is the same for all calls.
    """

    stream: dict[int, int]
    parts: dict[int, Part | Packed]

    def leaves(self) -> Iterator[Part]:
        """The single parts."""
        for part in self.parts.values():
            yield from leaves(part)


def scan_run(run: Run, environment: Environment, evaluate: Evaluate) -> bool:
    """Evaluate `run` as one `lax.scan`, if its operands allow; whether they did.

    Caches are carried whole and only the rows a layer writes are touched; weights are read layer by layer.
    """
    operands = _operands(run, environment)
    if operands is None:
        return False
    first, last = run[0], run[-1]
    stream = {i: environment[_input(first, i)] for i in operands.stream}
    stacks = {part.origin: part.stack for part in operands.leaves()}
    written: dict[int, str] = {}
    kept = [k for k in sorted(set(operands.stream.values())) if _used_elsewhere(run, k)]

    def layer(carry: tuple[dict[int, Value], dict[str, Value]], number: Value) -> tuple[Any, list[Value]]:
        local = dict(environment)
        local.update({_input(first, i): value for i, value in carry[0].items()})
        moving = {**stacks, **carry[1]}
        for i, part in operands.parts.items():
            local[_input(first, i)] = _stepped(part, moving, number)
        evaluate(first, local)
        made = [local[value] for value in first.outputs]
        written.update({k: value.origin for k, value in enumerate(made) if isinstance(value, Part)})
        left = {value.origin: value.stack for value in made if isinstance(value, Part)}
        return ({i: made[k] for i, k in operands.stream.items()}, left), [made[k] for k in kept]

    carry = (stream, {part.origin: part.stack for part in operands.leaves() if part.state})
    (stream, left), history = lax.scan(layer, carry, jnp.arange(len(run), dtype=jnp.int32))
    for number, node in enumerate(run):
        for k, origin in written.items():
            part = next(part for part in operands.leaves() if part.origin == origin)
            environment[node.outputs[k]] = replace(part, stack=left[origin], index=part.index + number)
        for k, values in zip(kept, history, strict=True):
            environment[node.outputs[k]] = values[number]
    for i, k in operands.stream.items():
        environment[last.outputs[k]] = stream[i]
    return True


def _operands(run: Run, environment: Environment) -> _Operands | None:
    """None if the calls differ in more than what a scan can step through."""
    stream: dict[int, int] = {}
    parts: dict[int, Part | Packed] = {}
    for i in range(len(run[0].inputs)):
        values = [_input(node, i) for node in run]
        if all(value is values[0] for value in values):
            continue
        producers = {
            value.index() if value.producer() is before else None
            for before, value in zip(run, values[1:], strict=False)
        }
        if len(producers) == 1 and (k := producers.pop()) is not None:
            stream[i] = k
            continue
        part = _stepping(values, environment)
        if part is None:
            return None
        parts[i] = part
    return _Operands(stream, parts) if parts else None


def _stepping(values: Sequence[ir.Value], environment: Environment) -> Part | Packed | None:
    """The first of `values` if they are the consecutive parts of one stack, or of several alike."""
    found = [environment.get(value) for value in values]
    columns = list(zip(*map(leaves, found), strict=False))
    return found[0] if all(map(_is_consecutive, columns)) else None


def _is_consecutive(found: Sequence[Value]) -> bool:
    first = found[0]
    return isinstance(first, Part) and all(
        isinstance(part, Part) and part.stack is first.stack and part.index == first.index + number
        for number, part in enumerate(found)
    )


def _stepped(part: Part | Packed, stacks: Mapping[str, Value], number: Value) -> Part | Packed:
    """What the layer takes that is `number` layers further on."""
    if isinstance(part, Packed):
        return replace(part, pieces=tuple(_stepped(piece, stacks, number) for piece in part.pieces))
    return replace(part, stack=stacks[part.origin], index=part.index + number)


def _used_elsewhere(run: Run, output: int) -> bool:
    """Whether something besides the next layer reads this output of a layer other than the last."""
    following = set(run)
    return any(
        use.node not in following or node.outputs[output].is_graph_output()
        for node in run[:-1]
        for use in node.outputs[output].uses()
    )


def _input(node: ir.Node, i: int) -> ir.Value:
    value = node.inputs[i]
    if value is None:
        raise ValueError(f"call of {node.op_type} leaves out input {i}")
    return value
