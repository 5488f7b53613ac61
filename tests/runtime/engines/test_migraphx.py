"""The migraphx engine on a fake of MIGraphX's Python module that computes with ONNX Runtime: bundles compiled, built by
their own script, and run; and what it says where something is missing.
"""

import runpy
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines import load_programs, migraphx_machine
from specc_runtime.errors import EngineError
from tests.support import fake_migraphx
from tests.support.fake_migraphx import FakeMigraphx
from tests.support.resigning import edit_manifest
from tests.support.tiny_models import compiled, tiny_model

PROMPT = [5, 1, 33, 60, 2, 17, 80, 4]
GAMMAS = (1, 3)
MI300X = {"gfx_target_version": 90402, "wave_front_size": 64, "simd_count": 1216}


def list_gpus(folder: Path, *gpus: dict[str, int]) -> Path:
    """The kernel driver's files: a CPU, then these GPUs."""
    for number, properties in enumerate([{"cpu_cores_count": 8, "gfx_target_version": 0}, *gpus]):
        node = folder / str(number)
        node.mkdir(parents=True)
        text = "".join(f"{key} {value}\n" for key, value in properties.items())
        (node / "properties").write_text(text)
    return folder


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeMigraphx:
    """A machine with an MI300X and the fake MIGraphX."""
    fake = FakeMigraphx()
    monkeypatch.setitem(sys.modules, "migraphx", fake)
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", list_gpus(tmp_path / "kfd", MI300X))
    return fake


@pytest.fixture(scope="module")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("migraphx")
    compiled(tiny_model(root / "m"), root / "b", target="mi300x", gammas=GAMMAS)
    return root / "b"


@pytest.fixture(scope="module")
def on_the_cpu(portable: Path) -> Path:
    """The same models for ONNX Runtime."""
    output = portable.parent / "cpu"
    compiled(portable.parent / "m", output, gammas=GAMMAS)
    return output


@pytest.fixture
def bundle(portable: Path, tmp_path: Path) -> Path:
    shutil.copytree(portable, tmp_path / "b")
    return tmp_path / "b"


def run_script(bundle: Path, *arguments: str) -> int:
    """The exit code of the bundle's own build script."""
    script = str(bundle / "build_migraphx.py")
    before, sys.argv = sys.argv, [script, *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
    return int(ended.value.code or 0)


@pytest.fixture
def built(bundle: Path, machine: FakeMigraphx) -> Path:
    assert run_script(bundle) == 0
    return bundle


def test_the_script_builds_every_program_and_notes_what_it_built_for(built: Path, machine: FakeMigraphx) -> None:
    manifest = open_bundle(built, "hashes").manifest
    assert all(p.built and p.requires == ("migraphx==2.15.0", "gfx942") for p in manifest.programs)
    assert [p.file for p in manifest.programs] == [f.replace(".onnx", ".mxr") for f, _, _ in machine.compiled]
    assert manifest.toolchain["migraphx"] == "2.15.0"
    assert {(target, *options.items()) for _, target, options in machine.compiled} == {
        ("gpu", ("offload_copy", False), ("fast_math", False), ("exhaustive_tune", False))
    }
    assert not list(built.glob(".*"))


def test_building_again_changes_nothing_but_the_tuning(built: Path, machine: FakeMigraphx) -> None:
    before = open_bundle(built).manifest
    machine.compiled.clear()
    assert run_script(built, "--exhaustive-tune") == 0
    assert all(options["exhaustive_tune"] for _, _, options in machine.compiled)
    assert [replace(p, file="") for p in open_bundle(built, "hashes").manifest.programs] == [
        replace(p, file="") for p in before.programs
    ]


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("prompt", [PROMPT[:1], PROMPT, PROMPT * 4])
def test_greedy_text_is_the_ort_bundles(built: Path, on_the_cpu: Path, plain: bool, prompt: list[int]) -> None:
    params = SamplingParams(max_new_tokens=48)
    here, there = Engine.load(built), Engine.load(on_the_cpu)
    text = here.generate(prompt, params, plain=plain).finish().ids
    assert text == there.generate(prompt, params, plain=True).finish().ids
    assert here.generate(prompt, params, plain=plain).finish().ids == text  # over the caches that the first one left


def test_rounds_are_used_without_being_asked_for(built: Path) -> None:
    engine = Engine.load(built)
    generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=24), gamma=3)
    generation.finish()
    assert generation.stats.spec_decode_num_drafts > 0
    assert {p.kind for p in engine._models._programs.rounds} == {"round"}


@pytest.mark.parametrize(
    "options", [{"temperature": 0.8, "top_p": 0.9}, {"temperature": 1.0, "repetition_penalty": 1.2}]
)
def test_a_seeds_text_is_the_ort_bundles(built: Path, on_the_cpu: Path, options: dict[str, Any]) -> None:
    """Rounds in one call where they serve the request, steps driven by the host where they do not."""
    params = SamplingParams(max_new_tokens=40, seed=7, **options)
    texts = [Engine.load(b).generate(PROMPT, params, gamma=3).finish().ids for b in (built, on_the_cpu)]
    assert texts[0] == texts[1]


def test_a_draft_shorter_than_any_program_is_fed_to_the_next_wider_one(built: Path, on_the_cpu: Path) -> None:
    params = SamplingParams(max_new_tokens=30)
    prompt = PROMPT * 3
    here, there = (Engine.load(b).generate(prompt, params, drafter="ngram", gamma=2) for b in (built, on_the_cpu))
    assert here.finish().ids == there.finish().ids


def test_caches_are_written_in_place_and_zeroed_by_reset(built: Path) -> None:
    programs = load_programs(open_bundle(built))
    ids = np.array(PROMPT)
    first = programs.verify(ids, 0, 1).copy()
    programs.verify(ids[:3], 0, 0)
    programs.reset()
    np.testing.assert_array_equal(programs.verify(ids, 0, 1), first)
    second = programs.verify(ids[:1], len(ids), 1).copy()
    programs.reset()
    assert np.abs(programs.verify(ids[:1], len(ids), 1) - second).max() > 0  # the prompt is gone


def test_logits_are_the_cpus_in_every_cut_of_a_text(built: Path, on_the_cpu: Path) -> None:
    programs = [load_programs(open_bundle(b)) for b in (built, on_the_cpu)]
    ids = np.random.default_rng(0).integers(0, 300, 40)
    position = 0
    for width in (9, 1, 4, 2, 3, 6, 1, 14):
        rows = min(width, 4)
        found, expected = (p.verify(ids[position : position + width], position, rows) for p in programs)
        assert np.abs(found - expected).max() <= 1e-4
        drafts = [p.draft("drafter", ids[position : position + width], position) for p in programs]
        assert np.abs(drafts[0] - drafts[1]).max() <= 1e-4
        position += width


def load(bundle: Path) -> Callable[[], Any]:
    return lambda: load_programs(open_bundle(bundle))


def refuses(call: Callable[[], Any]) -> str:
    with pytest.raises(EngineError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_bundle_that_is_not_built_says_how(bundle: Path, machine: FakeMigraphx) -> None:
    assert "not built yet: run `python build_migraphx.py` in that folder" in refuses(load(bundle))


def test_without_migraphx_it_says_what_to_install(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "migraphx", None)
    said = refuses(load(built))
    assert "can't be imported" in said
    assert "lacks the MIGraphXExecutionProvider" in said
    assert "onnxruntime-migraphx" in said


@pytest.mark.parametrize(
    ("gpus", "version", "said"),
    [
        ([MI300X | {"gfx_target_version": 90010}], "2.15.0", "built for gfx942 (found gfx90a): run"),
        ([], "2.15.0", "built for gfx942 (found no AMD GPU)"),
        ([MI300X], "2.16.1.dev", "built for migraphx==2.15.0 (found MIGraphX 2.16.1.dev)"),
        (
            [{"gfx_target_version": 110000}],
            "2.14.0",
            "migraphx==2.15.0 (found MIGraphX 2.14.0) and gfx942 (found gfx1100)",
        ),
    ],
)
def test_another_machine_is_refused_before_a_file_is_opened(
    gpus: list[dict[str, int]], version: str, said: str, built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = FakeMigraphx(version)
    monkeypatch.setattr(elsewhere, "load", None)
    monkeypatch.setitem(sys.modules, "migraphx", elsewhere)
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", list_gpus(tmp_path / "elsewhere", *gpus))
    assert said in refuses(load(built))


def test_the_gpu_that_will_be_used_counts(built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    older = MI300X | {"gfx_target_version": 90010}
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", list_gpus(tmp_path / "two", older, MI300X))
    assert "built for gfx942 (found gfx90a)" in refuses(load(built))
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    load(built)()


@pytest.mark.parametrize(
    ("gpus", "version", "said"),
    [
        (
            [MI300X | {"gfx_target_version": 90500}],
            "2.15.0",
            "target 'mi300x', which needs gfx942 (found gfx950): build it on",
        ),
        ([MI300X], "2.14.9", "needs migraphx>=2.15 (found MIGraphX 2.14.9)"),
        (
            [MI300X | {"wave_front_size": 32}],
            "2.15.0",
            "gfx942 runs 32 threads in step here, and the target file says 64",
        ),
    ],
)
def test_the_script_refuses_another_machine(
    gpus: list[dict[str, int]],
    version: str,
    said: str,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "migraphx", FakeMigraphx(version))
    monkeypatch.setattr(migraphx_machine, "KFD_NODES", list_gpus(tmp_path / "kfd", *gpus))
    assert run_script(bundle) == 1
    assert said in capsys.readouterr().err
    assert not list(bundle.glob("*.mxr"))


def test_a_program_that_is_not_built_leaves_the_bundle_as_it_was(
    bundle: Path, machine: FakeMigraphx, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (bundle / "manifest.json").read_bytes()

    def fails(filename: str, default_dim_value: int = 0) -> None:
        raise RuntimeError("PARSE_ONNX: no such op\nat line 3")

    monkeypatch.setattr(machine, "parse_onnx", fails)
    assert run_script(bundle) == 1
    said = capsys.readouterr().err
    assert "verifier.prefill.48.onnx: MIGraphX does not build it (PARSE_ONNX: no such op)" in said
    assert (bundle / "manifest.json").read_bytes() == before
    assert not list(bundle.glob(".*"))


def test_the_driver_is_run_with_the_same_options(
    bundle: Path, machine: FakeMigraphx, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver = tmp_path / "bin" / "migraphx-driver"
    driver.parent.mkdir()
    driver.write_text('#!/bin/sh\necho "$@" >> "$LOG"\nwhile [ "$1" != -o ]; do shift; done\necho built > "$2"\n')
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(driver.parent), prepend=":")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    assert run_script(bundle, "--driver", "--exhaustive-tune") == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == len(open_bundle(bundle, "hashes").manifest.programs)
    for line in lines:
        assert line.startswith("compile ")
        assert " --gpu --disable-fast-math --binary -o " in line
        assert line.endswith(" --exhaustive-tune")
    assert not machine.compiled


def test_an_mxr_of_another_file_version_is_named(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_migraphx, "FORMAT_VERSION", 9)
    assert "Program version mismatch. Expected 9, found 8; run `python build_migraphx.py` again" in refuses(load(built))


def test_outputs_that_lie_elsewhere_are_noticed(
    built: Path, machine: FakeMigraphx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "results", lambda bound: [fake_migraphx.argument(np.zeros(1, np.int64)), *bound[1:]])
    programs = load(built)()
    said = refuses(lambda: programs.verify(np.array(PROMPT[:1]), 0, 1))
    assert "output 0 was not written to the memory bound to it" in said


def test_a_version_that_names_outputs_otherwise_is_noticed(
    built: Path, machine: FakeMigraphx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "output_names", lambda count: [f"output_{place}" for place in range(count)])
    assert "parameter 'main:#output_0' must be float_type [1, 1, 300], the file has nothing of that name" in refuses(
        load(built)
    )


def edited(bundle: Path, change: Callable[[dict[str, Any]], None]) -> Bundle:
    edit_manifest(bundle, change)
    return open_bundle(bundle)


def test_a_manifest_of_other_shapes_is_refused(built: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        for state in document["programs"][1]["state"]:
            state["shape"][2] = 7
        document["programs"] = document["programs"][1:2]

    changed = edited(built, change)
    said = refuses(lambda: load_programs(changed))
    assert "parameter 'past.0.key' must be float_type [1, 2, 7, 16], the file has float_type [1, 2, 52, 16]" in said


def test_16_bit_brain_floats_have_no_buffers(built: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        for program in document["programs"]:
            for state in program["state"]:
                state["dtype"] = "bfloat16"

    changed = edited(built, change)
    assert "must be bfloat16 [1, 2, 52, 16], the file has float_type" in refuses(lambda: load_programs(changed))


def test_a_failing_call_is_named(built: Path, machine: FakeMigraphx, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = load(built)()

    def fails() -> None:
        raise RuntimeError("hip error: out of memory")

    monkeypatch.setattr(machine, "gpu_sync", fails)
    said = refuses(lambda: programs.verify(np.array([1]), 0, 1))
    assert "verifier.verify.1.mxr: hip error: out of memory; build it again: `python build_migraphx.py`" in said


def test_caches_that_nodes_write_themselves_have_no_output_to_bind(
    portable: Path, on_the_cpu: Path, tmp_path: Path, machine: FakeMigraphx
) -> None:
    """A target file may ask for it: rows are then written one by one into the input itself."""
    target = tmp_path / "mi300x.toml"
    text = (Path(__file__).parents[3] / "targets" / "mi300x.toml").read_text()
    target.write_text(text.replace("[sources]", "in_place_caches = true\n\n[sources]"))
    compiled(portable.parent / "m", tmp_path / "b", target=str(target), gammas=GAMMAS)
    assert run_script(tmp_path / "b") == 0
    params = SamplingParams(max_new_tokens=24)
    here, there = (Engine.load(b).generate(PROMPT, params, gamma=3).finish() for b in (tmp_path / "b", on_the_cpu))
    assert here.ids == there.ids
    assert here.stats.spec_decode_num_drafts > 0


def test_16_bit_caches_run(tmp_path: Path, machine: FakeMigraphx) -> None:
    compiled(tiny_model(tmp_path / "m"), tmp_path / "b", precision="reference,kv=fp16,draft=int8", target="mi300x")
    assert run_script(tmp_path / "b") == 0
    engine = Engine.load(tmp_path / "b")
    plain, drafted = (
        engine.generate(PROMPT, SamplingParams(max_new_tokens=30), plain=plain).finish().ids for plain in (True, False)
    )
    assert plain == drafted
