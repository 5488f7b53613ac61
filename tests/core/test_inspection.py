import onnx_ir as ir
import pytest

from specc.core.inspection import inputs_of, static_shape, tensor_of


def test_inputs_of_a_node_that_has_them_all() -> None:
    a, b = ir.Value(name="a"), ir.Value(name="b")
    assert inputs_of(ir.node("Add", [a, b])) == [a, b]
    with pytest.raises(ValueError, match="Clip 'cut' leaves out an input"):
        inputs_of(ir.node("Clip", [a, None, b], name="cut"))


def test_static_shape() -> None:
    assert static_shape(ir.Value(name="a", shape=ir.Shape([2, 3]))) == (2, 3)
    assert static_shape(ir.Value(name="a", shape=ir.Shape([]))) == ()
    for shape in (ir.Shape([2, "S"]), None):
        with pytest.raises(ValueError, match="'a' has no static shape"):
            static_shape(ir.Value(name="a", shape=shape))


def test_tensor_of_an_initializer_only() -> None:
    tensor = ir.tensor([1.0])
    assert tensor_of(ir.Value(name="a", const_value=tensor)) is tensor
    with pytest.raises(ValueError, match="'a' is no initializer"):
        tensor_of(ir.Value(name="a"))
