"""Each trap of TensorRT's as a graph of a few nodes that walks into it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from specc.backends.tensorrt.graphs import round_graph, stepping_graph
from specc.backends.tensorrt.lint import RULES, check_dialect
from specc.core.building import Body, model, value
from specc.core.initializers import initializer
from specc.errors import BuildError, LegalizeError
from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from tests.support.refusals import refuses
from tests.support.tensorrt_cores import core

F32, F16, BF16, I64, I8 = (
    ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.INT64, ir.DataType.INT8,
)  # fmt: skip


class Trap:
    """A graph in the making."""

    def __init__(self) -> None:
        self.body, self.inputs, self.weights = Body(), list[ir.Value](), list[ir.Value]()
        self.outputs: list[ir.Value] = []

    def given(self, name: str, shape: Sequence[int], dtype: ir.DataType) -> ir.Value:
        self.inputs.append(value(name, shape, dtype))
        return self.inputs[-1]

    def weight(self, name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> ir.Value:
        self.weights.append(initializer(name, "mlp", array))
        return self.weights[-1]

    def left(self, made: ir.Value, name: str) -> None:
        made.name = name
        self.outputs.append(made)

    def graph(self) -> ir.Graph:
        return model("trap", self.inputs, self.outputs, self.body, initializers=self.weights).graph


def attention(dtype: ir.DataType = F16, size: int = 64, **attributes: Any) -> ir.Graph:
    trap = Trap()
    q, mask = trap.given("q", [1, 4, 5, size], dtype), trap.given("mask", [1, 1, 5, 32], ir.DataType.BOOL)
    caches = [trap.given(f"past.0.{part}", [1, 2, 32, size], dtype) for part in ("key", "value")]
    trap.left(trap.body.op("Attention", q, *caches, mask, scale=0.1, **attributes), "y")
    return trap.graph()


def update(
    shape: Sequence[int] = (1, 2, 32, 16),
    dtype: ir.DataType = F16,
    times: int = 1,
    chained: bool = False,
    **more: Any,
) -> ir.Graph:
    trap = Trap()
    cache, position = trap.given("past", shape, dtype), trap.given("position", [1], I64)
    rows = trap.given("rows", [*shape[:-2], 1, shape[-1]], dtype)
    made = cache
    for index in range(times):
        made = trap.body.op("TensorScatter", made if chained else cache, rows, position, **{"axis": -2} | more)
        if not chained or index == times - 1:
            trap.left(made, f"present.{index}")
    return trap.graph()


def products(shared: bool, packed: bool) -> ir.Graph:
    """Two steps of a drafter with gate and up apart, or packed; their weights shared by the steps or not."""
    trap = Trap()
    for step in range(2):
        x = trap.given(f"x{step}", [1, 1, 8], F32)
        for name in ["both"] if packed else ["gate", "up"]:
            known = [w for w in trap.weights if shared and w.name in (name, f"{name}.scale")]
            suffix = "" if shared else f".{step}"
            codes, scale = known or (
                trap.weight(name + suffix, np.ones((4, 8), np.int8)),
                trap.weight(f"{name}{suffix}.scale", np.ones(4, np.float32)),
            )
            wide = trap.body.op("DequantizeLinear", codes, scale, axis=0)
            y = trap.body.op("MatMul", x, trap.body.op("Transpose", wide, perm=[1, 0]))
            trap.left(y, f"{name}.{step}.y")
    return trap.graph()


def dequantized(codes: np.dtype[np.generic], scale: float = 1.0, *, gathered: bool = False) -> ir.Graph:
    trap = Trap()
    table = trap.weight("codes", np.ones((4, 8), codes))
    if gathered:
        table = trap.body.op("Gather", table, trap.body.constant([0, 1, 2, 3]), axis=0)
    scales = trap.weight("scale", np.full(4, scale, np.float32))
    trap.left(trap.body.op("DequantizeLinear", table, scales, axis=0), "y")
    return trap.graph()


TRAPS = [
    (attention(F32), "over FLOAT caches has no fused kernel; keep kv in fp16 or bf16"),
    (attention(size=512), "no fused kernel for heads of 512"),
    (attention(size=20), "no fused kernel for heads of 20: give multiples of 16"),
    (attention(softcap=30.0), "attention with softcap is refused"),
    (attention(softmax_precision=1), "attention with softmax_precision is refused"),
    (attention(is_causal=1), "is_causal and a mask"),
    (attention(TRT_decomposable=1), "attention with TRT_decomposable may lose its fused kernel"),
    (update(times=2, chained=True), "updates can't be chained"),
    (update(times=2), "'past' is updated 2 times, once is possible"),
    (update(shape=(1, 32, 16)), "4 dimensions are wanted"),
    (update(dtype=I8), "'past' is a cache of INT8: floats only"),
    (update(mode="circular"), "around its end"),
    (dequantized(np.dtype(np.uint8)), "'codes' holds unsigned codes"),
    (dequantized(np.dtype(np.int8), 0.0), "scale 'scale' holds zeros"),
    (dequantized(np.dtype(np.int8), gathered=True), "are computed: only weights are dequantised"),
    (products(shared=True, packed=False), "parallel products of 'x0' read 8-bit weights that steps share (gate)"),
]


@pytest.mark.parametrize(("graph", "words"), TRAPS, ids=[words for _, words in TRAPS])
def test_a_trap_is_one_line(graph: ir.Graph, words: str) -> None:
    with refuses(BuildError, "tensorrt: round can't be built: ", words):
        check_dialect("round", graph)


@pytest.mark.parametrize(
    "graph",
    [
        attention(), attention(BF16, 256), update(), update(dtype=F32), dequantized(np.dtype(np.int8)),
        products(shared=False, packed=False), products(shared=True, packed=True),
    ],
)  # fmt: skip
def test_what_builds_passes(graph: ir.Graph) -> None:
    check_dialect("round", graph)


def emitted() -> Iterator[ir.Model]:
    for state in (F16, BF16):
        verifier = core("verifier", state=state, weights=state)
        drafter = core("drafter", state=state, int8=True, num_hidden_layers=1)
        yield from (stepping_graph(verifier), stepping_graph(drafter), round_graph(verifier, drafter, 3, None))


def test_what_is_emitted_passes() -> None:
    for graph in emitted():
        check_dialect("a program", graph.graph)


def test_an_update_that_is_no_output() -> None:
    trap = Trap()
    cache, position = trap.given("past", [1, 2, 32, 16], F16), trap.given("position", [1], I64)
    rows = trap.given("rows", [1, 2, 1, 16], F16)
    trap.left(trap.body.op("Neg", trap.body.op("TensorScatter", cache, rows, position, axis=-2)), "y")
    with refuses(BuildError, "the update of 'past' is no output"):
        check_dialect("verify", trap.graph())


def test_a_past_inside_attention() -> None:
    trap = Trap()
    q = trap.given("q", [1, 2, 5, 16], F16)
    caches = [trap.given(f"past.0.{part}", [1, 2, 32, 16], F16) for part in ("key", "value")]
    y, key, _ = trap.body.ops("Attention", q, q, q, None, *caches, outputs=3)
    trap.left(y, "y")
    trap.left(key, "present.0.key")
    broken = list(RULES[1](trap.graph()))
    assert broken == ["attention with past and present is refused: caches are written by TensorScatter"]


@pytest.mark.parametrize(
    "op",
    [
        "If", "Loop", "Multinomial", "RandomUniform", "RandomUniformLike", "DynamicQuantizeLinear", "MatMulInteger",
        "TopK", "com.microsoft.GroupQueryAttention", "com.microsoft.MatMulNBits",
    ],
)  # fmt: skip
def test_an_op_that_it_lacks_or_gets_wrong_is_no_word_of_the_dialect(op: str) -> None:
    """The parser says that it supports some that it then does not build; of random numbers it ignores the seed."""
    domain, _, name = op.rpartition(".")
    trap = Trap()
    trap.left(trap.body.op(name, trap.given("x", [1, 4], F32), domain=domain), "y")
    made = model("trap", trap.inputs, trap.outputs, trap.body)
    made.graph.opset_imports.setdefault(domain, 1)
    with refuses(LegalizeError, f"tensorrt: no form for {op} in 'trap'"):
        legalize(made, "tensorrt", OPS)
