"""Every op of the table on onnx's own node tests, traced by XLA and, where nothing depends on data, known at once."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from onnx.backend.test.case.node import collect_testcases
from onnx.numpy_helper import to_array

jax = pytest.importorskip("jax", reason="the XLA backend needs the extra specc[xla]")

from specc.backends.xla.interpreter import Interpreter  # noqa: E402  (after the skip)
from specc.backends.xla.lowering import LOWERINGS  # noqa: E402

Array = NDArray[Any]
OPS = sorted(op for domain, op in LOWERINGS if not domain)

# Inputs that decide shapes: an op takes them only when they are known.
SHAPE_INPUTS = {
    "ConstantOfShape": (0,), "CumSum": (1,), "Expand": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "ReduceMax": (1,),
    "ReduceMean": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "ReduceSum": (1,), "Reshape": (1,),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,),
}  # fmt: skip

# Cases left out, by the reason, in any case of letters; a pattern that matches no case fails.
SKIPPED: dict[str, tuple[str, ...]] = {
    "refused: Attention that gives its scores too": ("test_attention_*qk_matmul*", "test_attention_local_window_gqa_*"),
    "refused: Attention over a valid length": ("test_attention_*nonpad*", "test_attention_*padded_kv*"),
    "refused: Attention in windows": ("test_attention_*_window*",),
    "sums in fp32, onnx's in 16 bits": ("test_attention_*bf16", "test_attention_4d_causal_fp16"),
    "texts are no arrays": ("test_*_string*",),
    "numpy has no maximum of nothing": ("test_reduce_max_empty_set*", "test_reduce_min_empty_set*"),
    "types of 8 bits and less, which no weight or cache has": (
        "test_cast*_FLOAT8*", "test_cast*_UINT4*", "test_cast*_INT4*", "test_cast*_UINT2*", "test_cast*_INT2*",
        "test_cast*_FLOAT4*", "test_dequantizelinear_e5m2", "test_dequantizelinear_float4e2m1",
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def cases() -> dict[str, list[Any]]:
    """onnx's cases of one node by op; collecting them takes seconds, so it is done when a test runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes its expectations of infinities with numpy
        collected = collect_testcases(None)
    by_op: dict[str, list[Any]] = {op: [] for op in OPS}
    for case in collected:
        nodes = case.model.graph.node
        if len(nodes) == 1 and not nodes[0].domain and nodes[0].op_type in by_op:
            by_op[nodes[0].op_type].append(case)
    return by_op


def reason_to_skip(name: str) -> str | None:
    return next((why for why, patterns in SKIPPED.items() if any(matches(name, p) for p in patterns)), None)


def matches(name: str, pattern: str) -> bool:
    return fnmatch(name.lower(), pattern.lower())


def left(cases: dict[str, list[Any]], op: str) -> list[Any]:
    return [case for case in cases[op] if reason_to_skip(case.name) is None]


@dataclass(frozen=True)
class Example:
    """A case and one of its data sets."""

    case: Any
    inputs: dict[str, Array]
    expected: list[Array]

    def run(self, given: Mapping[str, Any]) -> list[Any]:
        """Outputs in order; what is not `given` is fed as it is, and so known while tracing."""
        made = Interpreter(ir.from_proto(self.case.model)).run({**self.inputs, **given})
        return [made[v.name] for v in self.case.model.graph.output]

    def fed(self) -> dict[str, Array]:
        """The inputs that decide no shape."""
        node = self.case.model.graph.node[0]
        known = {node.input[i] for i in SHAPE_INPUTS.get(node.op_type, ()) if i < len(node.input)}
        return {name: array for name, array in self.inputs.items() if name not in known}


def examples(cases: Iterable[Any]) -> list[Example]:
    found = []
    for case in cases:
        names = [v.name for v in case.model.graph.input]
        for inputs, expected in case.data_sets:
            found.append(Example(case, dict(zip(names, map(array, inputs), strict=True)), list(map(array, expected))))
    return found


def array(value: Any) -> Array:
    """Types that numpy lacks come as TensorProto."""
    return to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def attempted(run: Callable[[], list[Any]]) -> list[Any] | str:
    """What `run` gives, or what went wrong, whatever it is."""
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__} {' '.join(str(error).split())[:300]}"


def failures(examples: list[Example], made: list[list[Any] | str]) -> list[str]:
    """What went wrong, case by case."""
    found = []
    for example, outputs in zip(examples, made, strict=True):
        wrong = outputs
        if not isinstance(outputs, str):
            wrong = attempted(lambda found=outputs, wanted=example: check(found, wanted))
        if wrong:
            found.append(f"{example.case.name}: {wrong}")
    return found


def check(found: list[Any], example: Example) -> list[Any]:
    """Integers must be equal; floats within what onnx allows the case, and no less than 1e-5 of it or 1e-6."""
    for got, wanted in zip(map(np.asarray, found), example.expected, strict=True):
        assert got.shape == wanted.shape
        if wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(got, wanted)
        else:
            wide = got.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(*wide, rtol=max(example.case.rtol, 1e-5), atol=1e-6)
    return []


def traced(examples: list[Example]) -> list[list[Any] | str]:
    """All examples as one compiled program: to compile each would take minutes. Failures are found while tracing."""
    wrong: dict[int, str] = {}

    def program(fed: list[dict[str, Any]]) -> dict[int, list[Any]]:
        made = {
            i: attempted(lambda e=e, given=given: e.run(given))
            for i, (e, given) in enumerate(zip(examples, fed, strict=True))
        }
        wrong.update({i: outputs for i, outputs in made.items() if isinstance(outputs, str)})
        return {i: outputs for i, outputs in made.items() if not isinstance(outputs, str)}

    made = jax.jit(program)([example.fed() for example in examples])
    return [wrong.get(i) or made[i] for i in range(len(examples))]


@pytest.mark.parametrize("op", OPS)
def test_traced(cases: dict[str, list[Any]], op: str) -> None:
    chosen = examples(left(cases, op))
    assert chosen, "no case of onnx's tests it"
    assert failures(chosen, traced(chosen)) == []


@pytest.mark.parametrize("op", OPS)
def test_known_while_tracing(cases: dict[str, list[Any]], op: str) -> None:
    chosen = examples(left(cases, op))
    assert failures(chosen, [attempted(lambda e=e: e.run({})) for e in chosen]) == []


def test_every_skip_leaves_a_case_out(cases: dict[str, list[Any]]) -> None:
    names = [case.name for of_op in cases.values() for case in of_op]
    for pattern in (pattern for patterns in SKIPPED.values() for pattern in patterns):
        assert any(matches(name, pattern) for name in names), pattern
