"""The form for NVIDIA GPUs: its numbers on ONNX Runtime's CPU kernels, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.backends.ort.cuda import cuda_graph, default_precision
from specc.core.inspection import inputs_of
from specc.errors import OptionError
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from specc.passes.quantize_linears import quantize_linears
from specc.targets import load_target
from specc_runtime.bundle import open_bundle
from specc_runtime.manifest import Manifest
from tests.models.support import OrtEvaluator, Runner, oracle_runner, token_ids
from tests.support.refusals import refuses
from tests.support.tensorrt_cores import PARTS, core
from tests.support.tiny_models import compiled, tiny_model

F32, F16, BF16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
WIDTHS = [16, 5, 1, 1, 5]


def logits(runner: Runner) -> NDArray[np.float32]:
    return runner.feed_in(WIDTHS, token_ids(sum(WIDTHS)))


def on_ort(graph: ir.Model) -> Runner:
    return Runner(graph, OrtEvaluator(graph, optimize=False))


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_fp32_form_is_the_core_graph(family: str, int8: bool) -> None:
    model = core("verifier", family)
    if int8:
        quantize_linears(model.graph, PARTS)
    expected, found = logits(oracle_runner(model.graph)), logits(on_ort(cuda_graph(model)))
    assert np.abs(found - expected).max() <= 1e-4


@pytest.mark.parametrize("int8", [False, True], ids=["fp16", "int8"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_16_bit_form_is_as_near_as_numpy_with_16_bit_rounding(family: str, int8: bool) -> None:
    exact, stored = core("verifier", family), core("verifier", family, F16, weights=F32 if int8 else F16)
    if int8:
        quantize_linears(exact.graph, PARTS)
        quantize_linears(stored.graph, PARTS)
    expected = logits(oracle_runner(exact.graph))
    narrowed = narrow_linears(narrow_attention(stored.graph.clone()), scales=F16)
    by_numpy = np.abs(logits(oracle_runner(narrowed)) - expected).max()
    found = np.abs(logits(on_ort(cuda_graph(stored))) - expected).max()
    assert 0 < found <= 2 * by_numpy


def test_products_are_in_the_dtype_of_their_weights_and_attention_in_that_of_its_caches() -> None:
    model = core("verifier", state=F16, weights=BF16)
    quantize_linears(model.graph, ["mlp"])
    graph = cuda_graph(model).graph
    kinds = {node.op_type for node in graph}
    assert {"GroupQueryAttention", "FusedMatMul"} <= kinds
    for node in graph:
        if node.op_type == "GroupQueryAttention":
            assert {inputs_of(node)[index].dtype for index in (3, 4)} == {F16}
        if node.op_type == "FusedMatMul":
            rows, weight = inputs_of(node)[:2]
            cast = rows.producer()
            assert weight.dtype == BF16
            assert cast is not None
            assert cast.op_type == "CastLike"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    root = tmp_path_factory.mktemp("cuda")
    compiled(tiny_model(root / "m"), root / "b", precision="balanced", target="a100", backend="ort", gammas=(1, 3))
    return open_bundle(root / "b").manifest


def test_a_bundle_has_steps_on_16_bit_caches_and_says_what_they_require(manifest: Manifest) -> None:
    assert {p.kind for p in manifest.programs} == {"prefill", "verify", "catchup", "draft"}
    assert {p.requires for p in manifest.programs} == {("ort-cuda>=1.31",)}
    assert {s.dtype for p in manifest.programs for s in p.state} == {"float16"}
    assert not any(p.built for p in manifest.programs)
    assert (manifest.backend, manifest.target, manifest.threads) == ("ort", "a100", 1)


def test_the_precision_that_is_taken_by_default() -> None:
    asked = {name: default_precision(load_target(name)) for name in ("cpu", "a100", "rtx2080")}
    assert asked == {"cpu": "reference", "a100": "balanced", "rtx2080": "balanced,mlp=fp16,embedding=fp16"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"fuse": True, "precision": "balanced"}, "backend 'ort' builds no rounds for a GPU; leave --fuse out"),
        ({"precision": "reference"}, "kv=fp32 is not built by backend 'ort'"),
        ({"precision": "balanced,mlp=bf16", "target": "rtx2080"}, "rtx2080 has no bf16"),
    ],
)
def test_what_would_run_on_the_cpu_is_refused(tmp_path: Path, asked: dict[str, Any], words: str) -> None:
    with refuses(OptionError, words):
        compiled(tiny_model(tmp_path / "m"), tmp_path / "b", **{"target": "a100", "backend": "ort"} | asked)
