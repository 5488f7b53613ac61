"""Portable bundles, whose engines are built on the device: everything but the vendor's compiler."""

from dataclasses import replace
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from specc.backends.tensorrt.emit import emit
from specc.bundle.staging import Staging
from specc.errors import OptionError, TargetError
from specc.targets import load_target
from specc_runtime.manifest import Program
from tests.support.refusals import refuses
from tests.support.tensorrt_cores import PREFILL, core, request

PORTABLE = ("h100", "h200", "b200", "jetson-orin", "thor")


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Program, ...]]:
    staging = Staging(tmp_path_factory.mktemp("emit"))
    programs = emit(request("h100", gammas=(2, 4), int8=True), staging)
    staging.write_graphs(lambda _: None)
    return staging.root, programs


def test_programs(emitted: tuple[Path, tuple[Program, ...]]) -> None:
    programs = emitted[1]
    assert [(p.kind, p.drafter, p.width, p.accept) for p in programs] == [
        ("verify", None, 1, "host"), ("verify", None, 3, "host"), ("verify", None, 5, "host"),
        ("prefill", None, PREFILL, "host"),
        ("draft", "drafter", 1, "host"), ("draft", "drafter", 2, "host"), ("catchup", "drafter", PREFILL, "host"),
        ("round", "drafter", 3, "graph"), ("round", "drafter", 5, "graph"),
    ]  # fmt: skip
    assert len({p.id for p in programs}) == len(programs)
    assert {p.requires for p in programs} == {("tensorrt>=11", "cuda:sm90")}
    assert not any(p.built for p in programs)


def test_one_file_a_model_holds_all_its_widths(emitted: tuple[Path, tuple[Program, ...]]) -> None:
    files: dict[str, list[str]] = {}
    for program in emitted[1]:
        files.setdefault(program.file, []).append(program.kind)
    assert sorted(map(len, files.values())) == [1, 1, 3, 4]


def test_every_program_is_static_and_fits_its_file(emitted: tuple[Path, tuple[Program, ...]]) -> None:
    root, programs = emitted
    for program in programs:
        graph = onnx.load(root / program.file, load_external_data=False).graph
        assert {t.name for t in program.inputs} | {s.name for s in program.state} == {v.name for v in graph.input}
        assert {t.name for t in program.outputs} | {s.output for s in program.state} == {v.name for v in graph.output}
        assert all(isinstance(d, int) for t in (*program.inputs, *program.outputs) for d in t.shape)
        assert {s.dtype for s in program.state} == {"float16"}
        logits = [t.shape for t in program.outputs if t.name == "logits"]
        assert logits == (
            [] if program.kind == "round" else [(1, program.width if program.kind == "verify" else 1, 61)]
        )


@pytest.mark.parametrize("target", PORTABLE)
def test_the_script_names_every_file_and_profile(target: str, tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    programs = emit(request(target), staging)
    script = (tmp_path / "build_tensorrt.py").read_text(encoding="utf-8")
    compile(script, "build_tensorrt.py", "exec")
    assert f'ARCHITECTURE = "{load_target(target).architecture}"' in script
    for program in programs:
        assert f'"{program.file}"' in script
        if program.kind != "round":
            assert f'"tokens": (1, {program.width})' in script


def test_machines_that_are_built_for_differently_are_refused_together(tmp_path: Path) -> None:
    with refuses(TargetError, "targets a100,h100", "engines are built here for", "a bundle of their own"):
        emit(request("a100,h100"), Staging(tmp_path))
    with refuses(TargetError, "targets h100,b200", "built on the device"):
        emit(request("h100,b200"), Staging(tmp_path))


@pytest.mark.parametrize(
    ("target", "codes", "words"),
    [
        ("a100", "fp8", "fp8 is built for sm120, sm121, sm89, and target a100 is sm80; give int8"),
        ("rtx4090,rtx3090", "fp8", "target rtx4090,rtx3090 is sm86"),
        ("h100", "fp8", "target h100 is sm90"),
        ("rtx2080", "int4", "target rtx2080 is sm75"),
    ],
)
def test_codes_that_an_architecture_does_not_take(target: str, codes: str, words: str, tmp_path: Path) -> None:
    asked = replace(request(target), verifier=core("verifier", state=ir.DataType.FLOAT16, mlp=codes))
    with refuses(OptionError, "precision: ", words):
        emit(asked, Staging(tmp_path))
