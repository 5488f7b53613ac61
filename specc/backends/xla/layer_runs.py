"""Runs of equal layers: consecutive calls of one model-local function."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import onnx_ir as ir

MIN_LAYERS = 2

Run = Sequence[ir.Node]


def find_runs(nodes: Sequence[ir.Node], functions: Mapping[ir.OperatorIdentifier, Any]) -> Iterator[Run]:
    """All nodes in order: calls of one layer function that follow each other together, every other node alone.

    A function is a layer's if each call reads what the one before it made.
    """
    for (identifier, number), group in groupby(enumerate(nodes), lambda item: _kind(item[0], item[1], functions)):
        run = [node for _, node in group]
        if number is not None or identifier is None or not all(map(follows, run, run[1:])):
            yield from ([node] for node in run)
        else:
            yield run


def follows(before: ir.Node, node: ir.Node) -> bool:
    """Whether `node` reads an output of `before`."""
    return any(value is not None and value.producer() is before for value in node.inputs)


def _kind(
    number: int, node: ir.Node, functions: Mapping[ir.OperatorIdentifier, Any]
) -> tuple[ir.OperatorIdentifier | None, int | None]:
    identifier = node.op_identifier()
    return (identifier, None) if identifier in functions else (None, number)
