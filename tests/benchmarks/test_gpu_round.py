"""The script that is prepared for a GPU runs here, in small."""

import json
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="the XLA backend needs the extra specc[xla]")

from benchmarks.gpu_round import main


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_runs_in_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = main(["--tiny", "--json", str(tmp_path / "figures.json")])
    assert json.loads((tmp_path / "figures.json").read_text()) == report
    found = report["pairs"]["tiny"]
    assert list(found) == ["compile_s", "plain", "gamma 1", "gamma 2", "loop"]
    for name in ("plain", "gamma 1", "gamma 2"):
        assert found[name]["ms"] > 0
        assert found[name]["bandwidth_share"] > 0
    assert found["loop"]["tokens"] >= found["loop"]["rounds"] > 0
    assert len(report["laws"]) == 2
    assert min(report["laws"].values()) > 1e-3
    said = capsys.readouterr().out.splitlines()
    assert sum("of the copy bandwidth" in line for line in said) == 3
    assert sum(line.endswith("ok") for line in said) == 2
