"""The embedding program as a host runs it: a process of its own, on the copies beside it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specc.deployment.emitting import emit
from specc.deployment.records import Asked
from specc_runtime import Engine, SamplingParams
from tests.support.tiny_models import TinyBundles, tiny_model


def run_program(folder: Path, *requests: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(folder / "generate.py")],
        input="".join(f"{request}\n" for request in requests),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_requests_are_answered_in_turn(bundle: Path, tmp_path: Path) -> None:
    output = emit("embedding", bundle, tmp_path / "out", Asked()).output
    answers = run_program(
        output,
        json.dumps({"id": "a", "prompt": "hello", "max_new_tokens": 12}),
        "",
        json.dumps({"id": "b", "prompt": "hello", "temprature": 1}),
        json.dumps({"id": "c", "max_new_tokens": 2}),
        "[1]",
        "nonsense",
        json.dumps({"prompt": [1, 2, 3], "max_new_tokens": 3, "plain": True}),
    )
    expected = Engine.load(bundle).generate("hello", SamplingParams(max_new_tokens=12)).finish()
    first = [answer for answer in answers if answer.get("id") == "a"]
    assert [token for answer in first for token in answer.get("ids", [])] == expected.ids
    assert "".join(answer["text"] for answer in first) == expected.text
    assert first[-1]["finish_reason"] == "length"
    assert first[-1]["stats"]["spec_decode_num_drafts"] > 0
    errors = [answer for answer in answers if "error" in answer]
    assert [answer.get("id") for answer in errors] == ["b", "c", None, None]
    for answer, text in zip(errors, ("temprature", "lacks 'prompt'", "not [1]", "Expecting value"), strict=True):
        assert text in answer["error"]
    assert answers[-1]["stats"]["spec_decode_num_drafts"] == 0


def test_a_bundle_of_ids_needs_no_tokenizer(tmp_path: Path) -> None:
    bundles = TinyBundles(tmp_path)
    bundle = bundles.bundle(tiny_model(tmp_path / "model", tokenizer=None))
    output = emit("embedding", bundle, tmp_path / "out", Asked()).output
    answers = run_program(output, json.dumps({"prompt": [1, 2, 3], "max_new_tokens": 4}))
    assert sum(len(answer.get("ids", [])) for answer in answers) == 4
    assert all("text" not in answer for answer in answers)
    assert "tokenizers" not in (output / "requirements.txt").read_text()


def test_it_runs_on_the_runtime_beside_it(bundle: Path, tmp_path: Path) -> None:
    output = emit("embedding", bundle, tmp_path / "out", Asked()).output
    script = "import specc_runtime; print(specc_runtime.__file__)"
    done = subprocess.run([sys.executable, "-c", script], cwd=output, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(output)


def test_a_bundle_elsewhere_is_read_from_there(bundle: Path, tmp_path: Path) -> None:
    output = emit("embedding", bundle, tmp_path / "out", Asked(bundle_path=str(bundle))).output
    assert not (output / "bundle").exists()
    assert run_program(output, json.dumps({"prompt": "a", "max_new_tokens": 1}))[-1]["finish_reason"] == "length"


@pytest.mark.parametrize("missing", ["manifest.json", "tokenizer.json"])
def test_a_damaged_bundle_ends_the_program_in_one_line(bundle: Path, tmp_path: Path, missing: str) -> None:
    output = emit("embedding", bundle, tmp_path / "out", Asked()).output
    (output / "bundle" / missing).unlink()
    done = subprocess.run(
        [sys.executable, str(output / "generate.py")], input="", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert missing in done.stderr
