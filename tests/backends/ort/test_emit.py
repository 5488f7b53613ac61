from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from specc_runtime.bundle import open_bundle
from specc_runtime.manifest import Manifest, Program
from specc_runtime.params import OPTIONS
from tests.support.tiny_models import compiled, tiny_model


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("emit")
    compiled(tiny_model(root / "m"), root / "b", gammas=(1, 3), fuse=True)
    return root / "b"


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> Manifest:
    return open_bundle(bundle).manifest


def test_programs(manifest: Manifest) -> None:
    found = {(p.kind, p.drafter, p.width, p.max_width, p.accept) for p in manifest.programs}
    assert found == {
        ("prefill", None, None, 48, "host"),
        ("verify", None, None, 48, "host"),
        ("draft", "drafter", None, 48, "host"),
        ("catchup", "drafter", None, 48, "host"),
        ("round", "drafter", 2, 2, "graph"),
        ("round", "drafter", 4, 4, "graph"),
    }
    assert {p.batch for p in manifest.programs} == {1}
    assert not any(p.built for p in manifest.programs)


def test_one_file_a_model_and_one_a_round(manifest: Manifest) -> None:
    files: dict[str, set[str]] = {}
    for program in manifest.programs:
        files.setdefault(program.file, set()).add(program.kind)
    assert sorted(map(sorted, files.values())) == [["catchup", "draft"], ["prefill", "verify"], ["round"], ["round"]]


def test_host_programs_serve_every_option_and_rounds_what_they_can(manifest: Manifest) -> None:
    for program in manifest.programs:
        asked = {"greedy", "temperature", "top_k", "top_p", "min_p"} if program.kind == "round" else set(OPTIONS)
        assert set(program.options) == asked


def test_signatures_are_the_files(manifest: Manifest, bundle: Path) -> None:
    """Every input and output of a file is in the manifest, as tensor or as state, under its dtype and shape."""
    for program in manifest.programs:
        graph = onnx.load(bundle / program.file, load_external_data=False).graph
        assert listed(program) == {
            "in": sorted(v.name for v in graph.input),
            "out": sorted(v.name for v in graph.output),
        }
        shapes = {v.name: tuple(d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim) for v in graph.input}
        for tensor in (*program.inputs, *program.state):
            assert shapes[tensor.name] == tensor.shape


def listed(program: Program) -> dict[str, list[str]]:
    states = program.state
    return {
        "in": sorted([t.name for t in program.inputs] + [s.name for s in states]),
        "out": sorted([t.name for t in program.outputs] + [o for s in states for o in (s.output, *s.also)]),
    }


def test_rounds_use_the_caches_of_the_steps(manifest: Manifest) -> None:
    buffers = {(s.owner, s.role) for p in manifest.programs if p.kind != "round" for s in p.state}
    for program in manifest.programs:
        if program.kind == "round":
            assert {(s.owner, s.role) for s in program.state} == buffers


def test_no_program_holds_weights_of_its_own(bundle: Path) -> None:
    for path in [*bundle.glob("programs/*"), *bundle.glob("core/*.onnx")]:
        graph = onnx.load(path, load_external_data=False).graph
        assert all(t.data_location == onnx.TensorProto.EXTERNAL for t in graph.initializer)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("narrow")
    compiled(tiny_model(root / "m"), root / "b", gammas=(1, 3), precision="reference,kv=fp16")
    return root / "b"


def test_narrow_caches_are_recomputed_by_one_program_more(narrow: Path, manifest: Manifest) -> None:
    """The verify program but for its file and the fp32 caches it has for itself."""
    assert not any(program.kind == "recompute" for program in manifest.programs)
    programs = open_bundle(narrow).manifest.programs
    (recompute,) = (program for program in programs if program.kind == "recompute")
    (verify,) = (program for program in programs if program.kind == "verify")
    state = tuple(replace(s, role=f"recomputed.{s.role}", dtype="float32") for s in verify.state)
    assert recompute == replace(verify, id=recompute.id, kind="recompute", file=recompute.file, state=state)
    assert recompute.file != verify.file
    graph = onnx.load(narrow / recompute.file, load_external_data=False).graph
    types = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    assert {types[s.name] for s in state} == {onnx.TensorProto.FLOAT}


def test_only_known_domains(bundle: Path) -> None:
    for path in bundle.glob("programs/*"):
        model = onnx.load(path, load_external_data=False)
        assert {opset.domain for opset in model.opset_import} == {"", "com.microsoft"}
        assert not model.functions
