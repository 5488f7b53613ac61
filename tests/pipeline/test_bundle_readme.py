"""A bundle's README.md taken at its word: what it says to run is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from specc.cli.app import run
from tests.support.tiny_models import TinyBundles

PLACE = "path/to/this/folder"
COMMAND = re.compile(r"`(specc [^`]+)`")


@pytest.fixture(params=["text", "ids"])
def bundle(tiny: TinyBundles, request: pytest.FixtureRequest) -> Path:
    return tiny.bundle() if request.param == "text" else tiny.bundle(tiny.model(tokenizer=None))


def test_the_example_runs_as_it_stands(bundle: Path) -> None:
    code = (bundle / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert PLACE in code
    script = code.replace(PLACE, str(bundle)).replace("max_new_tokens=64", "max_new_tokens=8")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"\d+|length, \d\.\d\d tokens a round", last)


def test_the_commands_run(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (bundle / "README.md").read_text(encoding="utf-8")
    commands = COMMAND.findall(" ".join(text.split()))
    assert {command.split()[1] for command in commands} >= {"check", "inspect", "emit"}
    for command in commands:
        if command.startswith("specc check"):
            continue  # takes long, and tests/check runs it
        filled = command.replace("FOLDER", str(bundle)).replace("DIR", str(tmp_path / "out")).replace('"..."', "hello")
        assert run(filled.split()[1:]) == 0, command
        assert capsys.readouterr().out
