from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from specc.core.building import Body, function, model, value
from specc.core.oracle import Oracle
from specc.errors import LegalizeError
from specc.legalize import rewriting
from specc.legalize.rewriting import legalize, rewrites, rule_for

F32 = ir.DataType.FLOAT
OPS = frozenset([("", "Add"), ("", "Mul"), ("", "Neg"), ("", "Constant")])


@pytest.fixture(autouse=True)
def _no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_RULES", {})


def unary(*ops: str, called: Sequence[str] = ()) -> ir.Model:
    """`y = ops[-1](... ops[0](x))`; those in `called` are functions of that name that negate."""
    body = Body()
    x = out = value("x", [3], F32)
    functions = {}
    for op in ops:
        if op in called:
            inner, arg = Body(), value("arg")
            functions[op] = function(op, [arg], {"res": inner.op("Neg", arg)}, inner)
            (out,) = body.call(functions[op], out)
        else:
            out = body.op(op, out)
    out.name, out.shape, out.dtype = "y", ir.Shape([3]), F32
    return model("unary", [x], [out], body, functions=functions.values())


def op_types(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph]


def doubled(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    return [body.op("Add", node.inputs[0], node.inputs[0])]


def negated(node: ir.Node, body: Body) -> Sequence[ir.Value]:
    return [body.op("Neg", node.inputs[0])]


def declined(node: ir.Node, body: Body) -> None:
    return None


def test_a_backends_rule_wins_over_the_common_one() -> None:
    rewrites("Relu")(negated)
    rewrites("Relu", on="npu")(doubled)
    assert rule_for("", "Relu", "npu", OPS) is doubled
    assert rule_for("", "Relu", "gpu", OPS) is negated
    assert op_types(legalize(unary("Relu"), "npu", OPS)) == ["Add"]
    assert op_types(legalize(unary("Relu"), "gpu", OPS)) == ["Neg"]


def test_a_common_rule_serves_only_backends_that_lack_the_op() -> None:
    rewrites("Neg")(doubled)
    assert rule_for("", "Neg", "npu", OPS) is None
    assert op_types(legalize(unary("Neg"), "npu", OPS)) == ["Neg"]
    assert op_types(legalize(unary("Neg"), "npu", OPS - {("", "Neg")})) == ["Add"]


def test_a_backends_own_rule_may_replace_an_op_it_has() -> None:
    rewrites("Neg", on="npu")(doubled)
    assert op_types(legalize(unary("Neg"), "npu", OPS)) == ["Add"]


def test_rules_are_for_standard_ops_and_our_functions_only() -> None:
    rewrites("Relu", on="npu")(negated)
    assert rule_for("com.vendor", "Relu", "npu", OPS) is None


def test_a_function_with_a_rule_is_rewritten_and_without_one_inlined() -> None:
    rewrites("twice", on="npu")(doubled)
    assert op_types(legalize(unary("twice", called=["twice"]), "npu", OPS)) == ["Add"]
    assert op_types(legalize(unary("twice", called=["twice"]), "gpu", OPS)) == ["Neg"]


def test_a_function_whose_rule_declines_is_inlined_and_its_ops_are_rewritten() -> None:
    rewrites("twice", on="npu")(declined)
    rewrites("Neg", on="npu")(doubled)
    legal = legalize(unary("twice", called=["twice"]), "npu", OPS)
    assert op_types(legal) == ["Add"]
    assert not legal.functions


def test_what_a_rule_makes_is_rewritten_too() -> None:
    rewrites("Relu", on="npu")(negated)
    rewrites("Neg", on="npu")(doubled)
    assert op_types(legalize(unary("Relu"), "npu", OPS)) == ["Add"]


def test_rules_that_undo_each_other_are_stopped() -> None:
    rewrites("Relu", on="npu")(negated)
    rewrites("Neg", on="npu")(lambda node, body: [body.op("Relu", node.inputs[0])])
    with pytest.raises(LegalizeError, match=r"^npu: rules still change 'unary' after 16 sweeps"):
        legalize(unary("Relu"), "npu", OPS)


def test_every_op_without_a_form_is_listed_once() -> None:
    with pytest.raises(LegalizeError) as error:
        legalize(unary("Sin", "Cos", "Sin", "Neg"), "npu", OPS)
    assert str(error.value) == "npu: no form for Cos, Sin in 'unary'; add a rule to specc/legalize/npu/"


def test_contrib_ops_are_listed_with_their_domain() -> None:
    rewrites("Relu", on="npu")(lambda node, body: [body.op("Gelu", node.inputs[0], domain="com.vendor")])
    with pytest.raises(LegalizeError, match=r"no form for com\.vendor\.Gelu"):
        legalize(unary("Relu"), "npu", OPS)


def test_graph_outputs_keep_name_shape_and_dtype() -> None:
    rewrites("Relu", on="npu")(doubled)
    (output,) = legalize(unary("Neg", "Relu"), "npu", OPS).graph.outputs
    assert (output.name, output.dtype, output.shape) == ("y", F32, ir.Shape([3]))


def test_domains_a_rule_uses_are_imported() -> None:
    rewrites("Relu", on="npu")(lambda node, body: [body.op("Gelu", node.inputs[0], domain="com.vendor")])
    legal = legalize(unary("Relu"), "npu", OPS | {("com.vendor", "Gelu")})
    assert legal.graph.opset_imports["com.vendor"] == 1
    assert "specc" not in legal.graph.opset_imports


def test_what_nothing_reads_is_gone_and_the_rest_computes_the_same() -> None:
    body, x = Body(), value("x", [3], F32)
    body.op("Sin", x)
    first, second = body.op("Neg", x), body.op("Neg", x)
    y = body.op("Mul", first, second)
    y.name, y.shape, y.dtype = "y", ir.Shape([3]), F32
    graph = model("twice", [x], [y], body)
    fed = {"x": np.asarray([1, 2, 3], np.float32)}
    expected = Oracle(graph).run(fed)["y"]
    legal = legalize(graph, "npu", OPS)
    assert op_types(legal) == ["Neg", "Mul"]
    np.testing.assert_array_equal(Oracle(legal).run(fed)["y"], expected)
