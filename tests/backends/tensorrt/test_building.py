"""Real engines, built without a GPU: what TensorRT-RTX takes, and what it says of what it doesn't."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

from specc.backends.tensorrt.architectures import COMPUTE_CAPABILITIES, default_precision
from specc.backends.tensorrt.building import VERSION, build_engine
from specc.backends.tensorrt.emit import EngineGraph, emit, engine_graphs
from specc.backends.tensorrt.graphs import round_graph, stepping_graph
from specc.backends.tensorrt.lint import DECOMPOSABLE, check_dialect
from specc.bundle.staging import Staging
from specc.errors import BuildError
from specc.targets import load_target
from tests.support.refusals import refuses
from tests.support.tensorrt_cores import core, request

trt = pytest.importorskip("tensorrt_rtx", reason='needs the compiler: pip install "specc[tensorrt]"')

F32, F16, BF16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
PROFILES = [{"tokens": (1, 5), "rows": (5,)}]


def engines(state: ir.DataType) -> dict[str, EngineGraph]:
    """What a request for one round comes to, by stem."""
    return {engine.stem: engine for engine in engine_graphs(request("a100", state, int8=True))}


def test_every_program_of_a_bundle_is_built(tmp_path: Path) -> None:
    programs = emit(request("a100", BF16, int8=True), Staging(tmp_path))
    assert all(p.built and p.requires == (f"tensorrt-rtx=={VERSION}", "cuda:sm80") for p in programs)
    files = {p.file for p in programs}
    assert len(files) == 3
    assert {(tmp_path / file).read_bytes()[:4] for file in files} == {b"vtrt"}


@pytest.mark.parametrize("stem", ["verifier", "drafter", pytest.param("round.drafter.gamma2", marks=pytest.mark.slow)])
def test_an_engine_built_again_has_the_same_bytes(stem: str) -> None:
    first, second = (
        build_engine(stem, engine.graph, engine.profiles, ["sm80"]) for engine in (engines(F16)[stem] for _ in range(2))
    )
    assert first == second


def test_a_round_whose_steps_write_in_place_is_built() -> None:
    """Opt-in, and unproven: the compiler takes several updates of one memory; nothing says in which order they run."""
    asked = request("a100", F16, int8=True)
    (round_,) = (
        engine
        for engine in engine_graphs(replace(asked, target=replace(asked.target, in_place_caches=True)))
        if engine.stem.startswith("round")
    )
    assert build_engine("round", round_.graph, round_.profiles, ["sm80"])[:4] == b"vtrt"


@pytest.mark.parametrize("architecture", COMPUTE_CAPABILITIES)
def test_every_architecture(architecture: str) -> None:
    for engine in engine_graphs(request("rtx2080", F16, (1,), int8=True)):
        if engine.stem != "verifier":
            assert build_engine(engine.stem, engine.graph, engine.profiles, [architecture])
    narrow = stepping_graph(core("verifier", state=F16, weights=F16))
    assert build_engine("verifier", narrow, PROFILES, [architecture])


def test_one_engine_for_several_machines() -> None:
    sizes = {}
    for names in (["sm86"], ["sm86", "sm89", "sm120"]):
        graph = stepping_graph(core("verifier", state=BF16, weights=BF16))
        sizes[len(names)] = len(build_engine("verifier", graph, PROFILES, names))
    assert sizes[3] > sizes[1]


@pytest.mark.parametrize(
    ("architecture", "state", "weights", "sizes", "words"),
    [
        ("sm80", F32, F32, {}, "attention would lose its fused kernel: keep kv in 16 bits"),
        ("sm80", F16, F16, {"head_dim": 512}, "attention would lose its fused kernel"),
        ("sm80", F16, F16, {"head_dim": 20}, "no kernel for this head size: multiples of 16"),
        ("sm75", F16, F32, {}, "no fp32 products: give --precision head=fp16"),
        ("sm75", BF16, BF16, {}, "no bf16: give --precision with fp16"),
        ("sm86", F16, F16, {"mlp": "fp8"}, "no fp8: sm89 and sm120 have"),
        ("sm75", F16, F16, {"mlp": "int4"}, "no int4: it starts with sm80"),
    ],
)
def test_what_the_compiler_refuses_is_one_line(
    architecture: str, state: ir.DataType, weights: ir.DataType, sizes: dict[str, Any], words: str
) -> None:
    model = core("verifier", state=state, weights=weights, **sizes)
    with refuses(BuildError, f"tensorrt: no engine of verifier for {architecture}: ", words, "the compiler says: "):
        build_engine("verifier", stepping_graph(model), PROFILES, [architecture])


def test_attention_that_may_be_decomposed_builds_where_a_kernel_is_lacking() -> None:
    """So that a build without the attribute, which the lint refuses, proves a fused kernel."""
    graph = stepping_graph(core("verifier", state=F16, weights=F16, head_dim=512))
    for node in graph.graph:
        if node.op_type == "Attention":
            node.attributes[DECOMPOSABLE] = ir.AttrInt64(DECOMPOSABLE, 1)
    assert build_engine("verifier", graph, PROFILES, ["sm80"])


@pytest.mark.parametrize(("codes", "architecture"), [("fp8", "sm89"), ("int4", "sm80")])
def test_codes_of_fewer_bits(codes: str, architecture: str) -> None:
    graph = stepping_graph(core("verifier", state=F16, weights=F16, mlp=codes))
    check_dialect("verifier", graph.graph)
    assert build_engine("verifier", graph, PROFILES, [architecture])


@pytest.mark.parametrize("width", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_drafter_with_activations_in_8_bits(width: int) -> None:
    """Alone, and unrolled in a round, whose steps share its weights."""
    verifier = core("verifier", state=F16, weights=F16)
    drafter = core("drafter", state=F16, weights=F16, coded="w8a8", num_hidden_layers=1)
    graph = stepping_graph(drafter) if width == 1 else round_graph(verifier, drafter, width - 1, None)
    check_dialect("a program", graph.graph)
    assert build_engine("a program", graph, PROFILES if width == 1 else (), ["sm80"])


def test_widths_share_an_engines_weights() -> None:
    """A profile more costs its kernels, not another copy of the weights."""
    sizes = {}
    widths = (1, 3, 5, 16)
    for count in (1, 4):
        graph = stepping_graph(core("verifier", state=F16, weights=F16, hidden_size=512, intermediate_size=3072))
        weights = sum(v.const_value.nbytes for v in graph.graph.initializers.values() if v.const_value is not None)
        profiles = [{"tokens": (1, width), "rows": (1,)} for width in widths[:count]]
        sizes[count] = len(build_engine("verifier", graph, profiles, ["sm80"]))
    assert weights > 20e6
    assert sizes[4] - sizes[1] < weights / 2


def test_the_precision_that_is_built_by_default() -> None:
    assert default_precision(load_target("a100")) == "balanced"
    assert default_precision(load_target("rtx2080,rtx3090")) == "balanced,mlp=fp16,head=fp16,embedding=fp16"


@pytest.mark.parametrize("target", ["h100", "thor"])
def test_portable_files_parse_as_the_script_reads_them(target: str, tmp_path: Path) -> None:
    """The same parser reads them from memory, their weights from the bundle's one weights file."""
    staging = Staging(tmp_path)
    programs = emit(request(target, F16, int8=True), staging)
    staging.write_graphs(lambda _: None)
    for file in sorted({p.file for p in programs}):
        logger = trt.Logger(trt.Logger.ERROR)
        network = trt.Builder(logger).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, logger)
        path = tmp_path / file
        assert parser.parse(path.read_bytes(), str(tmp_path / path.name)), parser.get_error(0).desc()
        assert network.num_layers > 50
