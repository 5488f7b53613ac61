"""The build script in a bundle: plain Python, with what the target file says."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specc.backends.migraphx.script import build_script
from specc.targets import known_targets, load_target
from tests.support.linted import complaints

TARGETS = [name for name in known_targets() if "migraphx" in load_target(name).backends]


def test_the_targets_are_amds() -> None:
    assert set(TARGETS) >= {"mi250x", "mi300x", "mi355x", "rx7900xtx"}
    assert {load_target(name).architecture for name in TARGETS} >= {"gfx90a", "gfx942", "gfx950", "gfx1100"}


def constants(text: str) -> dict[str, object]:
    """Values of the script's upper-case names."""
    assigned = (node for node in ast.parse(text).body if isinstance(node, ast.Assign))
    return {node.targets[0].id: ast.literal_eval(node.value) for node in assigned}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TARGETS)
def test_it_holds_what_the_target_file_says(name: str) -> None:
    target = load_target(name)
    text = build_script(target)
    compile(text, "build_migraphx.py", "exec")
    found = constants(text)
    assert (found["TITLE"], found["ARCHITECTURE"]) == (target.title, target.architecture)
    assert found["WAVEFRONT"] == target.wavefront
    assert found["WAVEFRONT"] == (32 if target.architecture.startswith("gfx1") else 64)
    assert [f"{key}={value}" for key, value in found["ENVIRONMENT"].items()] == list(target.environment)  # type: ignore[attr-defined]


def test_texts_of_any_target_stay_texts() -> None:
    target = replace(
        load_target("mi300x"),
        title='A "quoted"\n""" title',
        environment=("MIGRAPHX_X=~dot,!fused",),
        exhaustive_tune=True,
    )
    found = constants(build_script(target))
    assert found["TITLE"] == target.title
    assert found["ENVIRONMENT"] == {"MIGRAPHX_X": "~dot,!fused"}
    assert "default=True" in build_script(target)


@pytest.mark.parametrize("name", TARGETS)
def test_it_is_linted_and_formatted(name: str, tmp_path: Path) -> None:
    assert complaints(build_script(load_target(name)), tmp_path / "build_migraphx.py") == ""


def test_it_explains_itself_without_migraphx_or_a_bundle(tmp_path: Path) -> None:
    script = tmp_path / "build_migraphx.py"
    script.write_text(build_script(load_target("mi300x")))
    done = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=True)
    assert "AMD Instinct MI300X (gfx942)" in done.stdout
    assert "--driver" in done.stdout
    failed = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith("build_migraphx: error: ")
    assert len(failed.stderr.splitlines()) == 1


def test_without_the_runtime_it_says_what_to_install(tmp_path: Path) -> None:
    script = tmp_path / "build.py"
    script.write_text(build_script(load_target("mi300x")), encoding="utf-8")
    done = subprocess.run([sys.executable, "-S", "-I", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "the runtime can't be imported (No module named 'specc_runtime'" in done.stderr
