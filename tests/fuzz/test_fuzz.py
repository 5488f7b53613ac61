"""Short coverage-guided runs of the readers: no crash but the error each may raise, no hang, no wild allocation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("SPECC_FUZZ_SECONDS", "60"))  # for each reader
HANG_S, MEMORY_MIB = 10, 2048


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["safetensors", "gguf", "manifest"])
def test_reader_survives_fuzzing(reader, tmp_path):
    pytest.importorskip("atheris")
    limits = [f"-max_total_time={SECONDS}", f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MIB}", "-max_len=8192"]
    limits += [f"-artifact_prefix={tmp_path}/found-"]
    result = subprocess.run(
        [sys.executable, "-m", f"tests.fuzz.fuzz_{reader}", str(tmp_path / "corpus"), *limits],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert "Done" in result.stderr
