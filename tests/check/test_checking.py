"""Whole bundles under `check_bundle`: good ones pass every row, each kind of damage is found by the row that can."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import specc.check.subject
from specc.check import check_bundle
from specc.reports import CheckReport
from specc_runtime.errors import IntegrityError
from tests.support.refusals import refuses
from tests.support.resigning import edit_graph, edit_manifest, resign, scaled_attribute
from tests.support.tiny_models import TinyBundles


@pytest.fixture(autouse=True)
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven here needs no more of the sampled law."""
    monkeypatch.setattr("specc.check.law.SEQUENCES", 40)
    monkeypatch.setattr("specc.check.rounds.SEEDS", 2)


@pytest.fixture
def copy(tiny: TinyBundles, tmp_path: Path) -> Callable[..., Path]:
    """A bundle to damage."""
    return lambda **asked: copytree(tiny.bundle(**asked), tmp_path / "bundle")


def failed(report: CheckReport) -> set[str]:
    return {row.name for row in report.rows if row.passed is False}


def detail(report: CheckReport, name: str) -> str:
    return next(row.detail for row in report.rows if row.name == name)


@pytest.mark.parametrize("precision", ["reference", "int8", "reference,kv=fp16"])
def test_good_bundles_pass(precision: str, tiny: TinyBundles) -> None:
    report = check_bundle(tiny.bundle(precision=precision, gammas=(1, 3), fuse=True))
    assert report.passed, report
    assert [row.name for row in report.rows] == [
        "file hashes",
        "tiny twin",
        "verifier against its core graph",
        *(["verifier on fp32 caches against its core graph"] if "kv" in precision else []),
        "drafter against its core graph",
        "row independence",
        "greedy, prose",
        "greedy, code",
        "greedy, list",
        "rounds of drafter fused, gamma 1",
        "rounds of drafter fused, gamma 3",
        "sampled law",
        "sampled law, fused",
    ]
    assert all(row.passed for row in report.rows)


@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen3"])
def test_other_families_pass(family: str, tiny: TinyBundles) -> None:
    assert check_bundle(tiny.bundle(tiny.model(family))).passed


def test_ngram_and_no_tokenizer_pass(tiny: TinyBundles) -> None:
    report = check_bundle(tiny.bundle(tiny.model(tokenizer=None), "ngram"))
    assert report.passed
    assert [row.name for row in report.rows if row.passed is None] == ["fused rounds"]


@pytest.mark.parametrize("gamma", [1, 16])
def test_smallest_context_passes(gamma: int, tiny: TinyBundles) -> None:
    report = check_bundle(tiny.bundle(context=16, gammas=(gamma,)))
    assert report.passed, report


def test_drafter_with_the_shortest_context_passes(tiny: TinyBundles) -> None:
    short = tiny.model(num_hidden_layers=1, max_position_embeddings=16)
    assert check_bundle(tiny.bundle(draft=str(short))).passed


def test_programs_are_loaded_once(tiny: TinyBundles, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    load = specc.check.subject.load_programs

    def counted(*given: Any, **options: Any) -> Any:
        loaded.append(given)
        return load(*given, **options)

    monkeypatch.setattr(specc.check.subject, "load_programs", counted)
    check_bundle(tiny.bundle(gammas=(1, 3), fuse=True))
    assert len(loaded) == 1


def flip_weight(bundle: Path) -> None:
    """Change the mantissa of the last fp32 number of the file."""
    content = bytearray((bundle / "weights.safetensors").read_bytes())
    content[-2] ^= 0x40
    (bundle / "weights.safetensors").write_bytes(content)


def test_a_changed_weight_is_for_the_hashes(copy: Callable[..., Path]) -> None:
    """Program and core graph read the same weights, so nothing else can see it; signed again, nothing does."""
    bundle = copy()
    flip_weight(bundle)
    report = check_bundle(bundle)
    assert failed(report) == {"file hashes"}
    assert "weights.safetensors: changed since it was compiled" in detail(report, "file hashes")
    resign(bundle)
    assert check_bundle(bundle).passed


def test_a_truncated_file_ends_the_check(copy: Callable[..., Path]) -> None:
    bundle = copy()
    (bundle / "weights.safetensors").write_bytes(b"short")
    with refuses(IntegrityError, "weights.safetensors: 5 bytes, not"):
        check_bundle(bundle)


@pytest.mark.parametrize("precision", ["reference", "int8"])
def test_a_verifier_program_that_computes_something_else(precision: str, copy: Callable[..., Path]) -> None:
    """Its attention is three times as sharp. Everything that only asks whether it agrees with itself still passes."""
    bundle = copy(precision=precision)
    edit_graph(bundle, "programs/verifier.onnx", scaled_attribute("GroupQueryAttention", "scale", 3.0))
    report = check_bundle(bundle)
    assert failed(report) == {"verifier against its core graph"}
    assert "KL" in detail(report, "verifier against its core graph")


def test_a_recompute_program_that_computes_something_else(copy: Callable[..., Path]) -> None:
    bundle = copy(precision="reference,kv=fp16")
    edit_graph(bundle, "programs/verifier.recompute.onnx", scaled_attribute("GroupQueryAttention", "scale", 3.0))
    assert failed(check_bundle(bundle)) == {"verifier on fp32 caches against its core graph"}


def test_a_drafter_program_that_computes_something_else(copy: Callable[..., Path]) -> None:
    """What it drafts is accepted less often; what comes out does not change."""
    bundle = copy()
    edit_graph(bundle, "programs/drafter.onnx", scaled_attribute("GroupQueryAttention", "scale", 8.0))
    assert failed(check_bundle(bundle)) == {"drafter against its core graph"}


def test_a_core_graph_that_is_not_the_programs(copy: Callable[..., Path]) -> None:
    bundle = copy()
    (bundle / "core/verifier.onnx").write_bytes((bundle / "core/drafter.onnx").read_bytes())
    resign(bundle)
    assert failed(check_bundle(bundle)) == {"verifier against its core graph"}


def test_a_drafter_that_writes_into_the_verifiers_cache(tiny: TinyBundles, copy: Callable[..., Path]) -> None:
    def share_caches(document: dict[str, Any]) -> None:
        for program in document["programs"]:
            for state in program["state"]:
                state["owner"] = "verifier"

    bundle = copy(draft=str(tiny.model(seed=1)))
    edit_manifest(bundle, share_caches)
    report = check_bundle(bundle)
    assert {"greedy, prose", "greedy, code", "greedy, list"} <= failed(report)
    assert "drafter, gamma 4 differs at token" in detail(report, "greedy, prose")


def test_rounds_that_compute_something_else(copy: Callable[..., Path]) -> None:
    """Rounds whose models are not the bundle's: other texts than the host's, greedy ones too, under another law."""
    bundle = copy(gammas=(3,), fuse=True)
    edit_graph(bundle, "programs/round.drafter.gamma3.onnx", scaled_attribute("GroupQueryAttention", "scale", 8.0))
    report = check_bundle(bundle)
    assert failed(report) >= {"rounds of drafter fused, gamma 3", "greedy, prose"}
    assert failed(report) <= {row.name for row in report.rows if "fused" in row.name or "greedy" in row.name}
    assert "drafter fused, gamma 3 differs at token" in detail(report, "greedy, prose")


def test_a_damaged_core_graph_fails_its_row_only(copy: Callable[..., Path]) -> None:
    bundle = copy()
    (bundle / "core/verifier.onnx").write_bytes(b"\xff\xff\xff garbage")
    resign(bundle)
    report = check_bundle(bundle)
    assert failed(report) == {"programs against core graphs"}
    assert "core/verifier.onnx: can't be evaluated" in detail(report, "programs against core graphs")


def test_a_core_graph_the_manifest_does_not_list(copy: Callable[..., Path]) -> None:
    bundle = copy()
    edit_manifest(bundle, lambda document: document["files"].pop("core/drafter.onnx"))
    report = check_bundle(bundle)
    assert failed(report) == {"programs against core graphs"}
    assert "lists no core/drafter.onnx; re-compile" in detail(report, "programs against core graphs")


def test_a_damaged_config_fails_the_twin_only(copy: Callable[..., Path]) -> None:
    bundle = copy()
    (bundle / "core/verifier.config.json").write_text("{")
    resign(bundle)
    report = check_bundle(bundle)
    assert failed(report) == {"tiny twin"}
    assert "verifier.config.json: " in detail(report, "tiny twin")


def test_programs_that_do_not_load_end_the_check(copy: Callable[..., Path]) -> None:
    bundle = copy()
    (bundle / "programs/verifier.onnx").write_bytes(b"\xff\xff\xff garbage")
    resign(bundle)
    report = check_bundle(bundle)
    assert failed(report) == {"programs load"}
    assert report.rows[-1].detail.startswith(str(bundle.resolve() / "programs/verifier.onnx"))
