import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from specc_runtime.resident_memory import peak_bytes
from tests.support.tiny_models import TinyBundles

MIB = 2**20


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyBundles:
    return TinyBundles(tmp_path_factory.mktemp("tiny"))


def in_a_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_what_was_held_once_counts() -> None:
    before = peak_bytes()
    assert before > 20 * MIB  # Python and numpy
    held = np.ones(before // 8 + 8 * MIB, np.float64)
    del held
    assert peak_bytes() >= before + 32 * MIB


def test_what_the_starting_process_held_does_not_count() -> None:
    held = np.ones(32 * MIB, np.float64)
    outcome = in_a_process("-c", "from specc_runtime.resident_memory import peak_bytes; print(peak_bytes())")
    assert 10 * MIB < int(outcome.stdout) < held.nbytes // 2


@pytest.mark.parametrize("draft", ["slice:1", "ngram"])
def test_the_command_prints_bytes(tiny: TinyBundles, draft: str) -> None:
    outcome = in_a_process("-m", "specc_runtime.resident_memory", str(tiny.bundle(draft=draft)))
    assert re.fullmatch(r"\d+\n", outcome.stdout)
    assert 30 * MIB < int(outcome.stdout) < 1024 * MIB


def test_failures_are_one_line(tmp_path: Path) -> None:
    for arguments, message in (((str(tmp_path / "no"),), "not a bundle folder"), ((), "usage: python -m")):
        outcome = in_a_process("-m", "specc_runtime.resident_memory", *arguments)
        assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (1, "", 1)
        assert message in outcome.stderr
