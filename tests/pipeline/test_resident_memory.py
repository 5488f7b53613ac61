"""Memory to run a bundle: measured when it is compiled, told everywhere, never a reason to fail."""

from pathlib import Path

import pytest

import specc.pipeline
from specc.check.integrity import check_integrity
from specc.errors import CompileError
from specc.pipeline import compile_bundle
from specc.reports import CompileReport
from specc_runtime.bundle import open_bundle
from tests.support.tiny_models import TinyBundles, options


def unhurried(model: Path, output: Path, *, measure: bool = True) -> CompileReport:
    """Compile, speculation not timed."""
    return compile_bundle(options(model, output, measure=measure), measure=lambda bundle, prompts: bundle.manifest)


def test_the_bundle_says_what_it_takes(tiny: TinyBundles, tmp_path: Path) -> None:
    report = unhurried(tiny.model(), tmp_path / "b")
    manifest = open_bundle(tmp_path / "b", "hashes").manifest
    assert report.warnings == ()
    assert manifest.resident_bytes == report.manifest.resident_bytes
    assert manifest.resident_bytes is not None
    size = f"{manifest.resident_bytes / 2**20:.1f} MiB"
    assert f"to the end of its context held {size} at most" in (tmp_path / "b/README.md").read_text(encoding="utf-8")
    assert check_integrity(tmp_path / "b").passed


def test_failing_to_measure_it_is_a_warning(tiny: TinyBundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(root: Path) -> int:
        raise CompileError(f"no memory for {root.name}")

    monkeypatch.setattr(specc.pipeline, "resident_bytes", fails)
    report = unhurried(tiny.model(), tmp_path / "b")
    (warning,) = report.warnings
    assert warning.startswith("no memory for")
    assert open_bundle(tmp_path / "b", "hashes").manifest.resident_bytes is None


def test_nothing_is_run_unless_it_is_to_be_measured(
    tiny: TinyBundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specc.pipeline, "resident_bytes", lambda root: pytest.fail("a process was started"))
    assert unhurried(tiny.model(), tmp_path / "b", measure=False).manifest.resident_bytes is None
