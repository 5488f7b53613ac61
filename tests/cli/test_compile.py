import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specc.pipeline
from specc.options import CompileOptions, DraftSpec, DraftVocabulary, parse_precision
from specc.progress import Progress
from specc.reports import CompileReport
from tests.support.manifests import small_manifest


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[CompileOptions]:
    """The options each compile was called with; the compile itself is replaced."""
    calls: list[CompileOptions] = []

    def compile_bundle(options: CompileOptions, progress: Progress) -> CompileReport:
        calls.append(options)
        with progress.step("reading weights"):
            pass
        return CompileReport(options.output, small_manifest(), 1.5, ("head is a copy",))

    monkeypatch.setattr(specc.pipeline, "compile_bundle", compile_bundle)
    return calls


def test_defaults(asked: list[CompileOptions], specc: Callable[..., Any]) -> None:
    assert specc("compile", "some/model", "--draft", "slice:4", "-o", "out/b").code == 0
    assert asked == [CompileOptions(model="some/model", output=Path("out/b"), draft=DraftSpec("slice", layers=4))]


def test_every_option_arrives(asked: list[CompileOptions], specc: Callable[..., Any]) -> None:
    line = (
        "compile m.gguf --draft d --target h100 -o b --gamma 6,2 --context 512 --precision int8,head=fp32 --fuse "
        "--draft-vocab 8000 --calibration c.txt --ignore-config a --ignore-config b --threads 3 --no-measure --force"
    )
    assert specc(*line.split()).code == 0
    assert asked == [
        CompileOptions(
            model="m.gguf",
            output=Path("b"),
            draft=DraftSpec("checkpoint", source="d"),
            target="h100",
            gammas=(2, 6),
            context=512,
            precision=parse_precision("int8,head=fp32"),
            fuse=True,
            draft_vocabulary=DraftVocabulary(count=8000),
            calibration=Path("c.txt"),
            ignore_config=("a", "b"),
            threads=3,
            measure=False,
            force=True,
        )
    ]


def test_report_has_parts_programs_and_size(asked: list[CompileOptions], specc: Callable[..., Any]) -> None:
    outcome = specc("compile", "m", "--draft", "ngram", "-o", "b")
    for text in (
        "precision: reference",
        "mlp",
        "float32",
        "verify",
        "programs/drafter.onnx",
        "wrote b: 12 bytes in 1.5 s",
    ):
        assert text in outcome.out
    assert "specc: warning: head is a copy" in outcome.err
    assert "reading weights: took" in outcome.err


def test_json_report(asked: list[CompileOptions], specc: Callable[..., Any]) -> None:
    document = json.loads(specc("compile", "m", "--draft", "ngram", "-o", "b", "--json").out)
    assert (document["output"], document["bytes"], document["seconds"]) == ("b", 12, 1.5)
    assert document["warnings"] == ["head is a copy"]
    assert document["manifest"]["verifier"]["name"] == "verifier"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--gamma 0", "gamma: 0 drafted tokens a round are not built; give 1 to 16"),
        ("--gamma 100", "gamma: 100 drafted"),
        ("--context 3", "context: 3 positions are out of range"),
        ("--precision int9", "unknown preset 'int9'; did you mean 'int8'?"),
        ("--threads 0", "threads: 0 is out of range"),
        ("--batch 4", "batch: 4 sequences at once are not built yet; leave --batch out"),
        ("--draft slice:none", "draft: 'slice:none' is no slice"),
        ("--draft-vocab 1", "draft-vocab: 1 tokens are too few"),
    ],
)
def test_bad_option_is_refused_before_anything_is_opened(
    asked: list[CompileOptions], specc: Callable[..., Any], option: str, message: str
) -> None:
    outcome = specc("compile", "m", "--draft", "ngram", "-o", "b", *option.split())
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert asked == []


def test_full_disk_names_the_output(monkeypatch: pytest.MonkeyPatch, specc: Callable[..., Any]) -> None:
    def compile_bundle(options: CompileOptions, progress: Progress) -> CompileReport:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specc.pipeline.compile_bundle", compile_bundle)
    outcome = specc("compile", "m", "--draft", "ngram", "-o", "out/bundle")
    assert outcome.code == 1
    assert outcome.err == "specc: error: out/bundle: No space left on device\n"


def test_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, specc: Callable[..., Any]) -> None:
    def compile_bundle(options: CompileOptions, progress: Progress) -> CompileReport:
        with progress.step("writing"):
            raise KeyboardInterrupt

    monkeypatch.setattr("specc.pipeline.compile_bundle", compile_bundle)
    outcome = specc("compile", "m", "--draft", "ngram", "-o", "b")
    assert outcome.code == 1
    assert outcome.err.strip().splitlines()[-1] == "specc: error: interrupted; nothing was changed"
