"""What the record says products are computed in, against what JAX is told to multiply."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

from specc.backends.arithmetic import StoredPart
from specc.backends.xla.lowering.functions import linear, linear_q8
from specc.backends.xla.lowering.table import Call
from specc.backends.xla.machine import computed, machine_of
from specc.targets import load_target

INNER, OUTER = 16, 8
NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
TARGETS = ("cpu", "tpu-v5e", "h100")


def multiplied_in(target: str, stored: str) -> str:
    """The dtype of both operands of the one product that a linear layer is traced to."""
    node = ir.node("linear", [])
    given = {"block_size": ir.AttrInt64("block_size", INNER), "zero_point": ir.AttrInt64("zero_point", 0)}
    call = Call(node, given, jnp, machine_of(load_target(target)), lambda *_: ())
    x = jnp.zeros((1, 3, INNER), jnp.float32)
    if stored == "int8":
        codes, scale = np.zeros((OUTER, INNER), np.int8), np.ones((OUTER, 1), np.float32)
        traced = jax.make_jaxpr(lambda x, codes, scale: linear_q8(call, x, codes, scale))(x, codes, scale)
    else:
        weight = jnp.zeros((OUTER, INNER), next(name for name, short in NAMES.items() if short == stored))
        traced = jax.make_jaxpr(lambda x, weight: linear(call, x, weight))(x, weight)
    (product,) = (e for e in traced.jaxpr.eqns if e.primitive.name == "dot_general")
    (dtype,) = {str(operand.aval.dtype) for operand in product.invars}
    return NAMES[dtype]


@pytest.mark.parametrize("stored", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("target", TARGETS)
def test_linears_are_computed_in_what_the_record_says(target: str, stored: str) -> None:
    assert multiplied_in(target, stored) == computed(load_target(target), StoredPart("mlp", stored, "bf16"))


def test_what_a_tpu_and_a_cpu_make_of_the_same_bundle() -> None:
    stored = [
        StoredPart("attention", "bf16", "bf16"),
        StoredPart("draft", "int8", "bf16"),
        StoredPart("kv", "fp16", ""),
    ]
    assert [computed(load_target("tpu-v5e"), part) for part in stored] == ["bf16", "bf16", "fp32"]
    assert [computed(load_target("cpu"), part) for part in stored] == ["fp32", "fp32", "fp32"]
