import subprocess
import sys
from pathlib import Path

import pytest

from specc.bundle import resident_memory
from specc.bundle.resident_memory import resident_bytes
from specc.errors import CompileError
from tests.support.refusals import refuses


def test_the_childs_own_words_are_the_reason(tmp_path: Path) -> None:
    with refuses(CompileError, "memory to run the bundle was not measured", "not a bundle folder", "python -m"):
        resident_bytes(tmp_path / "nowhere")


def test_a_child_that_can_not_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with refuses(CompileError, "was not measured", "no-python"):
        resident_bytes(tmp_path)


@pytest.mark.parametrize("text", ["", "about 3 MiB\n"])
def test_an_answer_that_is_no_number(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, text, ""))
    with refuses(CompileError, "was not measured", "invalid literal"):
        resident_bytes(tmp_path)


def test_a_child_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_memory, "TIMEOUT_S", 0.01)
    with refuses(CompileError, "was not measured", "no end after 0.01 s"):
        resident_bytes(tmp_path)
