from collections.abc import Callable

import onnx_ir as ir
import pytest

from specc.passes.invariants import broken_invariants
from tests.models.support import random_decoder


def untype_an_input(model: ir.Model) -> None:
    model.graph.inputs[0].type = None


def unshape_an_output(model: ir.Model) -> None:
    model.graph.outputs[0].shape = None


def empty_an_initializer(model: ir.Model) -> None:
    model.graph.initializers["verifier.head"].const_value = None


def repeat_a_name(model: ir.Model) -> None:
    model.graph[0].outputs[0].name = "tokens"


def reshape_a_cache(model: ir.Model) -> None:
    model.graph.outputs[1].shape = ir.Shape([1, 2, 47, 16])


def retype_a_cache(model: ir.Model) -> None:
    model.graph.outputs[1].type = ir.TensorType(ir.DataType.FLOAT16)


def lose_a_cache_output(model: ir.Model) -> None:
    del model.graph.outputs[1]


def lose_a_cache_input(model: ir.Model) -> None:
    del model.graph.inputs[5]


def lose_a_function(model: ir.Model) -> None:
    del model.functions["specc", "embed", ""]


def call_with_too_little(model: ir.Model) -> None:
    call = next(node for node in model.graph if node.op_type == "embed")
    call.resize_inputs(1)


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (untype_an_input, "'tokens' lacks a name, dtype or shape"),
        (unshape_an_output, "'logits' lacks a name, dtype or shape"),
        (empty_an_initializer, "initializer 'verifier.head' has no values"),
        (repeat_a_name, "2 values are named 'tokens'"),
        (reshape_a_cache, "cache '0.key' goes in as FLOAT[1,2,48,16] and comes out as FLOAT[1,2,47,16]"),
        (retype_a_cache, "cache '0.key' goes in as FLOAT[1,2,48,16] and comes out as FLOAT16[1,2,48,16]"),
        (lose_a_cache_output, "cache '0.key' has no output"),
        (lose_a_cache_input, "cache '0.key' has no input"),
        (lose_a_function, "a call of 'embed', which is no function of the model"),
        (call_with_too_little, "a call of 'embed' does not fit its inputs and outputs"),
    ],
)
def test_a_broken_invariant_is_described(break_it: Callable[[ir.Model], None], sentence: str) -> None:
    model = random_decoder()
    assert list(broken_invariants(model)) == []
    break_it(model)
    assert sentence in list(broken_invariants(model))


def test_caches_may_carry_their_owner() -> None:
    model = random_decoder()
    for value in (*model.graph.inputs[5:], *model.graph.outputs[1:]):
        value.name = f"verifier.{value.name}"
    assert list(broken_invariants(model)) == []
    model.graph.outputs[1].name = "drafter.present.0.key"
    assert set(broken_invariants(model)) == {
        "cache 'verifier.0.key' has no output",
        "cache 'drafter.0.key' has no input",
    }
