"""Reading a graph: what must be there, or the error says what is missing."""

import onnx_ir as ir


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
