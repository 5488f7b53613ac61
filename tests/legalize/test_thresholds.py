"""Sixteen candidates a pass find the threshold that one bit a pass finds."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.core.functions.sampling import sampling_functions, warp
from specc.core.functions.thresholds import threshold_functions, top_k_threshold, top_p_threshold
from specc.core.oracle import Oracle
from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from tests.support.function_models import F32, I64, Array, Run, graph_of, ort_run

V = 300
LAWS = {
    "spread": np.random.default_rng(0).standard_normal((2, 3, V)),
    "peaked": np.random.default_rng(1).standard_normal((2, 3, V)) * 12,
    "equal": np.zeros((2, 3, V)),
    "two values": np.where(np.arange(2 * 3 * V).reshape(2, 3, V) % 7 == 0, -1.5, -2.5),
    "tiny": np.random.default_rng(2).standard_normal((2, 3, V)) * 1e-30,
    "huge": np.random.default_rng(3).standard_normal((2, 3, V)) * 1e30,
}
KINDS = {"top_k": (top_k_threshold(), I64), "top_p": (top_p_threshold(), F32)}


@cache
def runs(kind: str) -> tuple[Run, Run]:
    """The oracle on the core form, ONNX Runtime on TensorRT's form."""
    function, dtype = KINDS[kind]
    inputs: Mapping[str, tuple[ir.DataType, list[int | str]]] = {"x": (F32, ["B", "R", "V"]), "asked": (dtype, ["B"])}
    graph = graph_of(function, inputs, {"threshold": F32}, threshold_functions())
    return Oracle(graph).run, ort_run(legalize(graph.clone(), "tensorrt", OPS))


def both(kind: str, x: NDArray[np.float64], asked: Array) -> tuple[Array, Array]:
    fed = {"x": x.astype(np.float32), "asked": asked}
    expected, found = (run(fed)["threshold"] for run in runs(kind))
    return expected, found


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("k", [(1, 2), (5, V), (V - 1, V + 50), (0, 17)])
def test_top_k(law: str, k: tuple[int, int]) -> None:
    expected, found = both("top_k", LAWS[law], np.array(k))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("law", ["spread", "peaked", "equal", "two values"])
@pytest.mark.parametrize("p", [(0.1, 0.9), (0.5, 1.0), (0.999, 1e-6)])
def test_top_p(law: str, p: tuple[float, float]) -> None:
    """Which tokens are kept is the same; the threshold between two of them may differ by how sums round."""
    weights = np.exp(LAWS[law] - LAWS[law].max(axis=-1, keepdims=True))
    expected, found = both("top_p", weights, np.array(p, np.float32))
    kept = weights.astype(np.float32) >= found
    np.testing.assert_array_equal(kept, weights.astype(np.float32) >= expected)
    assert kept.any(axis=-1).all()


def test_the_ops_are_few() -> None:
    """What this form is for: chains that TensorRT's compiler gets through in seconds."""
    names = ("logits", "temperature", "top_k", "top_p", "min_p")
    inputs: dict[str, tuple[ir.DataType, list[int | str]]] = {
        name: (I64 if name == "top_k" else F32, ["B", "R", "V"] if name == "logits" else ["B"]) for name in names
    }
    graph = graph_of(warp(), inputs, {"law": F32}, sampling_functions())
    lowered = legalize(graph, "tensorrt", OPS)
    assert sum(node.op_type == "ReduceSum" for node in lowered.graph) < 25
