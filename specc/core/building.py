"""Writing graphs and function bodies: a tape that names what it records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from specc.core import DOMAIN, IR_VERSION, OPSET


class Body:
    """Records the nodes of one graph or function, in order."""

    def __init__(self) -> None:
        self._tape = ir.tape.Tape()

    @property
    def nodes(self) -> Sequence[ir.Node]:
        return self._tape.nodes

    def op(self, op_type: str, *inputs: ir.Value | None, domain: str = "", **attributes: Any) -> ir.Value:
        """Record a node with one output; its value."""
        return self._tape.op(op_type, inputs, _attributes(attributes), domain=domain)

    def ops(
        self, op_type: str, *inputs: ir.Value | None, outputs: int, domain: str = "", **attributes: Any
    ) -> Sequence[ir.Value]:
        """Record a node with several outputs; their values."""
        return self._tape.op_multi_out(op_type, inputs, _attributes(attributes), num_outputs=outputs, domain=domain)

    def call(self, function: ir.Function, *inputs: ir.Value | None, **attributes: Any) -> Sequence[ir.Value]:
        """Record a call of a model-local function; all its outputs."""
        return self.ops(function.name, *inputs, outputs=len(function.outputs), domain=function.domain, **attributes)

    def constant(self, value: Any, dtype: Any = np.int64) -> ir.Value:
        """Record a Constant of a scalar or (nested) sequence."""
        return self.op("Constant", value=ir.tensor(np.asarray(value, dtype=dtype)))

    def constant_of(self, attribute: str) -> ir.Value:
        """Record a Constant that takes the function's integer attribute `attribute`, as a vector of one."""
        scalar = self.op("Constant", value_int=ir.RefAttr("value_int", attribute, ir.AttributeType.INT))
        return self.op("Reshape", scalar, self.constant([1]))


def _attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def reference(attribute: str, of: str, kind: ir.AttributeType) -> ir.Attr:
    """Attribute `attribute` of a node in a function body that takes the value of the function's attribute `of`."""
    return ir.RefAttr(attribute, of, kind)


def value(name: str, shape: Sequence[int | str] | None = None, dtype: ir.DataType | None = None) -> ir.Value:
    """A named value, for a graph's or function's input."""
    return ir.Value(
        name=name,
        shape=None if shape is None else ir.Shape(shape),
        type=None if dtype is None else ir.TensorType(dtype),
    )


def function(
    name: str,
    inputs: Sequence[ir.Value],
    outputs: Mapping[str, ir.Value],
    body: Body,
    attributes: Iterable[ir.Attr] = (),
) -> ir.Function:
    """A model-local function of domain `specc`."""
    for output_name, output in outputs.items():
        output.name = output_name
    graph = ir.Graph(inputs, list(outputs.values()), nodes=body.nodes, opset_imports={"": OPSET, DOMAIN: 1}, name=name)
    return ir.Function(DOMAIN, name, graph=graph, attributes=list(attributes))


def model(
    name: str,
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    body: Body,
    *,
    initializers: Iterable[ir.Value] = (),
    functions: Iterable[ir.Function] = (),
) -> ir.Model:
    """A core model over recorded nodes, with copies of the functions for passes to change."""
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=body.nodes,
        initializers=list(initializers),
        opset_imports={"": OPSET, DOMAIN: 1},
        name=name,
    )
    return ir.Model(graph, ir_version=IR_VERSION, functions=[f.clone() for f in functions], producer_name="specc")
