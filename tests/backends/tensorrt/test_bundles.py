"""Whole compiles for machines whose engines are built on the device."""

from pathlib import Path

import pytest

from specc.errors import OptionError
from specc.reports import CompileReport
from tests.support.refusals import refuses
from tests.support.tiny_models import compiled, tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def report(model: Path, tmp_path_factory: pytest.TempPathFactory) -> CompileReport:
    output = tmp_path_factory.mktemp("bundle") / "b"
    return compiled(model, output, precision="balanced", target="jetson-orin", gammas=(2,))


def test_a_warning_names_the_script(report: CompileReport) -> None:
    script = report.output / "build_tensorrt.py"
    assert "build_tensorrt.py" in report.manifest.files
    assert script.is_file()
    assert [w for w in report.warnings if "built on the device, by the bundle's build_tensorrt.py" in w]
    assert "build_tensorrt.py" in (report.output / "README.md").read_text(encoding="utf-8")


def test_what_is_computed_in_16_bits(report: CompileReport) -> None:
    computed = {part.part: (part.stored, part.computed) for part in report.manifest.precision}
    assert computed["verifier.attention"] == computed["verifier.kv"] == ("bf16", "bf16")
    assert computed["drafter.mlp"] == ("int8", "bf16")
    assert computed["verifier.head"] == ("fp32", "fp32")


def test_nothing_was_measured_here(report: CompileReport) -> None:
    manifest = report.manifest
    assert manifest.drafters["drafter"].measured is None
    assert (manifest.threads, dict(manifest.quality), manifest.gamma) == (1, {}, 2)


def test_caches_in_fp32_are_refused(model: Path, tmp_path: Path) -> None:
    with refuses(OptionError, "kv=fp32 is not built by backend 'tensorrt'", "known: bf16, fp16"):
        compiled(model, tmp_path / "b", precision="reference", target="h100")


def test_codes_of_fewer_bits_are_stored_counted_and_refused_where_nobody_builds_them(
    model: Path, tmp_path: Path
) -> None:
    with refuses(OptionError, "precision: mlp=int4 is not built by backend 'ort'; known: bf16, fp16, fp32, int8"):
        compiled(model, tmp_path / "b", precision="mlp=int4")
    with refuses(OptionError, "precision: fp8 is built for sm120, sm121, sm89, and target jetson-orin is sm87"):
        compiled(model, tmp_path / "b", precision="balanced,mlp=fp8", target="jetson-orin")
