"""Bundles edited by hand or damaged: `run`, `inspect` and `check` say so in one line and end with 1."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from specc.cli.app import run
from tests.support.tiny_models import TinyBundles

COMMANDS = {"run": ["--prompt", "abc"], "inspect": [], "check": []}


@pytest.fixture
def bundle(tiny: TinyBundles, tmp_path: Path) -> Path:
    """A copy to damage."""
    return copytree(tiny.bundle(), tmp_path / "bundle")


def assert_refused(bundle: Path, capsys: pytest.CaptureFixture[str], *fragments: object, commands: str = "") -> None:
    for command in commands.split() or COMMANDS:
        assert run([command, str(bundle), *COMMANDS[command]]) == 1, command
        said = capsys.readouterr()
        lines = [line for line in said.err.splitlines() if line.startswith("specc: error: ")]
        assert len(lines) == 1, said
        assert "Traceback" not in said.err
        for fragment in fragments:
            assert str(fragment) in lines[0], f"{str(fragment)!r} is not in {lines[0]!r}"


def edit(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads((bundle / "manifest.json").read_text())
    change(document)
    (bundle / "manifest.json").write_text(json.dumps(document))


def set_to(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        *inner, last = path
        for key in inner:
            document = document[key]
        document[last] = value

    return change


EDITS = {
    "schema": (set_to("schema", value=99), "schema 99 is newer"),
    "type": (set_to("context", value="48"), "context: expected an integer"),
    "unknown key": (set_to("colour", value="red"), "colour: unknown key"),
    "context": (set_to("context", value=0), "context 0 must be 1 or more"),
    "gamma": (set_to("gamma", value=7), "gamma: 7 is not one of"),
    "program file": (set_to("programs", 0, "file", value="programs/other.onnx"), "not listed in files"),
    "program outside": (set_to("programs", 0, "file", value="../verifier.onnx"), "inside the bundle"),
    "file outside": (set_to("files", "../x", value={"bytes": 1, "sha256": "0" * 64}), "inside the bundle"),
    "absolute file": (set_to("files", "/etc/passwd", value={"bytes": 1, "sha256": "0" * 64}), "inside the bundle"),
    "drafter": (set_to("drafters", value={}), "'drafter' is not in drafters"),
    "size": (set_to("files", "weights.safetensors", "bytes", value=1), "weights.safetensors: "),
    "state shape": (set_to("programs", 0, "state", 0, "shape", value=[1, 2, 3, 4]), "another dtype or shape"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_manifest(name: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, fragment = EDITS[name]
    edit(bundle, change)
    assert_refused(bundle, capsys, bundle, fragment)


def test_manifest_that_is_no_json(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = bundle / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    assert_refused(bundle, capsys, manifest, "not a JSON document", "re-compile")


def test_no_manifest(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "manifest.json").unlink()
    assert_refused(bundle, capsys, bundle / "manifest.json", "missing", "specc compile")


@pytest.mark.parametrize("name", ["weights.safetensors", "programs/verifier.onnx", "tokenizer.json"])
def test_truncated_file(name: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate(bundle / name, (bundle / name).stat().st_size - 8)
    assert_refused(bundle, capsys, bundle / name, "bytes, not", "re-copy")


@pytest.mark.parametrize("name", ["weights.safetensors", "programs/drafter.onnx", "core/verifier.onnx"])
def test_missing_file(name: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / name).unlink()
    assert_refused(bundle, capsys, bundle / name, "missing", "re-copy")


def test_file_that_is_a_link_out_of_the_bundle(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = bundle / "weights.safetensors"
    weights.rename(bundle.parent / "elsewhere")
    weights.symlink_to(bundle.parent / "elsewhere")
    assert_refused(bundle, capsys, weights, "leads outside the bundle")


def test_no_bundle_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(tmp_path / "nothing", capsys, "nothing is there", "specc compile -o")
    (tmp_path / "file").write_text("")
    assert_refused(tmp_path / "file", capsys, "it is a file")


def test_program_of_garbage(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The right size, the wrong bytes: the engine refuses the file, the hashes name it."""
    program = bundle / "programs/verifier.onnx"
    program.write_bytes(b"\xff" * program.stat().st_size)
    assert_refused(bundle, capsys, program, "re-compile", commands="run")
    assert run(["check", str(bundle)]) == 1
    table = capsys.readouterr().out
    assert "changed since it was compiled" in table
    assert "programs load" in table


def test_tokenizer_of_garbage(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = bundle / "tokenizer.json"
    tokenizer.write_bytes(b"{" * tokenizer.stat().st_size)
    assert_refused(bundle, capsys, tokenizer, "not a tokenizer.json", "re-compile", commands="run")
    assert run(["check", str(bundle)]) == 1
    assert "Traceback" not in capsys.readouterr().err
