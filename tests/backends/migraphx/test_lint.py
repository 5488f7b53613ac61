"""Every trap of MIGraphX is refused by its name, and what specc emits holds none."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from specc.backends.migraphx.lint import check_dialect
from specc.backends.migraphx.lowering import lower
from specc.core.structure import without_weights
from specc.errors import LegalizeError
from specc.models.decoder import DecoderShape
from tests.legalize.migraphx.support import lowered, static
from tests.models.support import random_decoder

FLOAT, INT8, INT64 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT64
Shape = list[int | str]


def tensor(name: str, dtype: int, shape: Shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def holding(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    weights: list[onnx.TensorProto] | None = None,
    *,
    output: str = "y",
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of these nodes that gives out `output`."""
    inputs = inputs or [tensor("x", FLOAT, [1, 4])]
    graph = helper.make_graph(nodes, "program", inputs, [tensor(output, FLOAT, [1, 4])], weights or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def one(op: str, *inputs: str, domain: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs) or ["x"], ["y"], name=op.lower(), domain=domain, **attributes)


def weight(name: str, array: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


CODES = weight("codes", np.ones((4, 4), np.int8))
SCALE = weight("scale", np.ones(4, np.float32))


def with_function() -> onnx.ModelProto:
    model = holding([one("Relu")])
    body = [helper.make_node("Relu", ["a"], ["b"])]
    model.functions.append(helper.make_function("specc", "layer", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    return model


def positions_after_a_past(width: Shape) -> onnx.ModelProto:
    cache, lengths = [1, 2, 24, 16], tensor("lengths", TensorProto.INT32, [1])
    inputs = [tensor("qkv", FLOAT, [1, *width, 128]), tensor("key", FLOAT, [*cache]), tensor("value", FLOAT, [*cache])]
    node = helper.make_node(
        "GroupQueryAttention", ["qkv", "", "", "key", "value", "lengths", "lengths"], ["y", "k", "v"],
        domain="com.microsoft", num_heads=4, kv_num_heads=2,
    )  # fmt: skip
    return holding([node], [*inputs, lengths])


def external(*keys: str) -> onnx.ModelProto:
    stored = onnx.TensorProto(name="w", data_type=FLOAT, dims=[1, 4], data_location=TensorProto.EXTERNAL)
    for key in keys:
        stored.external_data.add(key=key, value="0" if key != "location" else "weights.safetensors")
    return holding([one("Add", "x", "w")], weights=[stored])


TRAPS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "a function": (with_function, r"holds functions \(layer\): inline them"),
    "a newer opset": (lambda: holding([one("Relu")], opset=24), "is written in opset 24: MIGraphX reads 17"),
    "an open size": (
        lambda: holding([one("Relu")], [tensor("x", FLOAT, ["S", 4])]),
        "has an open size in 'x', which MIGraphX would take for 1",
    ),
    "no shape": (
        lambda: holding([one("Relu")], [helper.make_tensor_value_info("x", FLOAT, None)]),
        "an open size in 'x'",
    ),
    "a scalar position": (
        lambda: holding([one("Relu", "position")], [tensor("position", INT64, [])]),
        r"takes a position that is not of shape \[1\]",
    ),
    **{
        f"the op {op}": (lambda op=op: holding([one(op)]), f"holds ops nobody saw it get right: {op}$")  # type: ignore[misc]
        for op in ("RMSNormalization", "TensorScatter", "Swish", "Attention", "RotaryEmbedding")
    },
    "a contrib op": (
        lambda: holding([one("RotaryEmbedding", domain="com.microsoft")]),
        r"nobody saw it get right: com\.microsoft\.RotaryEmbedding",
    ),
    "several positions after a past": (
        lambda: positions_after_a_past([5]),
        "feeds GroupQueryAttention several positions, which it gets wrong after a past",
    ),
    "8-bit weights widened": (
        lambda: holding(
            [helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"]), one("MatMul", "x", "w")],
            weights=[CODES, SCALE],
        ),
        "widens the 8-bit weight 'codes', which MIGraphX would store as floats",
    ),
    "8-bit weights cast": (
        lambda: holding(
            [helper.make_node("Cast", ["codes"], ["w"], to=FLOAT), one("MatMul", "x", "w")], weights=[CODES]
        ),
        "widens the 8-bit weight 'codes'",
    ),
    "quantised pairs": (
        lambda: holding(
            [helper.make_node("QuantizeLinear", ["x", "scale"], ["q"]), one("DequantizeLinear", "q", "scale")],
            weights=[SCALE],
        ),
        "holds QuantizeLinear: MIGraphX throws.*holds DequantizeLinear: MIGraphX throws",
    ),
    "dynamic quantisation": (
        lambda: holding(
            [
                helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "step", "zero"]),
                helper.make_node("MatMulInteger", ["q", "codes", "zero"], ["y"]),
            ],
            weights=[CODES],
        ),
        "holds DynamicQuantizeLinear, after which MatMulInteger is wrong.*gives MatMulInteger zero points",
    ),
    "unsigned 8-bit products": (
        lambda: holding(
            [helper.make_node("MatMulInteger", ["q", "codes"], ["y"])],
            [tensor("q", TensorProto.UINT8, [1, 4])],
            [CODES],
        ),
        "gives MatMulInteger something else than int8",
    ),
    "8-bit MatMulNBits": (
        lambda: holding([one("MatMulNBits", domain="com.microsoft", bits=8)]),
        "holds a 8-bit MatMulNBits: MatMulNBits is refused at 8 bits",
    ),
    "4-bit MatMulNBits": (
        lambda: holding([one("MatMulNBits", domain="com.microsoft", bits=4)]),
        "holds a 4-bit MatMulNBits: no form for it was proven",
    ),
    **{
        op: (lambda op=op: holding([one(op)]), f"holds {op}, which is frozen when the model is parsed")  # type: ignore[misc]
        for op in ("RandomUniform", "RandomUniformLike", "RandomNormal", "Multinomial", "Bernoulli")
    },
    **{
        op: (lambda op=op: holding([one(op)]), f"holds {op}, for which the device waits on the host")  # type: ignore[misc]
        for op in ("If", "Loop", "Scan")
    },
    "a slice from a computed row": (
        lambda: holding(
            [one("Slice", "x", "start", "end")], [tensor(n, INT64, [1]) for n in ("start", "end")]
        ),
        "computes input 1 of Slice 'slice': it must be a constant.*computes input 2 of Slice",
    ),
    "external data in another order": (
        lambda: external("location", "length", "offset"),
        "lists location, length, offset for 'w': MIGraphX reads location, offset, length, by place",
    ),
    "external data without a length": (lambda: external("location", "offset"), "lists location, offset for 'w'"),
    "an input passed through": (
        lambda: holding([one("Relu")], output="x"),
        "passes 'x' through as an output, for which MIGraphX has no buffer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_is_refused_by_name(trap: str) -> None:
    make, said = TRAPS[trap]
    with pytest.raises(LegalizeError, match=rf"^migraphx: 'program' .*{said}"):
        check_dialect(make())


@pytest.mark.parametrize(
    "model",
    [holding([one("Relu")]), external("location", "offset", "length"), positions_after_a_past([1])],
    ids=["a known op", "external data in order", "one position after a past"],
)
def test_what_is_right_passes(model: onnx.ModelProto) -> None:
    check_dialect(model)


def test_an_output_given_twice_is_refused() -> None:
    model = holding([one("Relu")])
    model.graph.output.append(tensor("y", FLOAT, [1, 4]))
    with pytest.raises(LegalizeError, match="gives one value out twice"):
        check_dialect(model)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(LegalizeError) as error:
        check_dialect(holding([one("Loop"), one("RandomUniform")], [tensor("x", FLOAT, ["N", 4])]))
    assert all(part in str(error.value) for part in ("open size", "Loop", "RandomUniform"))


def test_a_core_graph_is_refused_and_its_lowered_form_passes() -> None:
    decoder = random_decoder("llama", DecoderShape(24))
    with pytest.raises(LegalizeError, match=r"holds functions .*opset 24"):
        check_dialect(ir.to_proto(without_weights(static(decoder, 3))))
    check_dialect(ir.to_proto(lowered(decoder, 3)))
    check_dialect(ir.to_proto(lower(static(random_decoder("qwen3", DecoderShape(24)), 1))))
