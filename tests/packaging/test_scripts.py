"""The shell scripts of the sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [*ROOT.glob("examples/*.sh"), *ROOT.glob("benchmarks/*.sh"), *ROOT.glob(".ci/*")]


@pytest.mark.parametrize("script", [script.relative_to(ROOT).as_posix() for script in SCRIPTS])
def test_shell_is_linted(script: str) -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed (extra `test`)")
    done = subprocess.run([shellcheck, ROOT / script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert os.access(ROOT / script, os.X_OK)
