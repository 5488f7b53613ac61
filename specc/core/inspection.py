"""Reading a graph: what must be there, or the error says what is missing."""

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray


def inputs_of(node: ir.Node) -> list[ir.Value]:
    """The inputs of a node that leaves none out."""
    present = [v for v in node.inputs if v is not None]
    if len(present) != len(node.inputs):
        raise ValueError(f"{node.op_type} '{node.name}' leaves out an input")
    return present


def static_shape(value: ir.Value) -> tuple[int, ...]:
    """The shape of a value all of whose dimensions are known."""
    if value.shape is None or not value.shape.is_static():
        raise ValueError(f"'{value.name}' has no static shape: {value.shape}")
    return tuple(value.shape.numpy())


def tensor_of(value: ir.Value) -> ir.TensorProtocol:
    """The values of an initializer."""
    if value.const_value is None:
        raise ValueError(f"'{value.name}' is no initializer")
    return value.const_value


def constant_array(value: ir.Value | None) -> NDArray[np.generic] | None:
    """The array of a value that a Constant node makes, None for any other value."""
    producer = None if value is None else value.producer()
    if producer is None or producer.op_type != "Constant":
        return None
    (attribute,) = producer.attributes.values()
    if attribute.name == "value":
        return attribute.as_tensor().numpy()
    return np.asarray(attribute.value, np.int64 if "int" in attribute.name else np.float32)
