import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specc.bench.benchmarking
import specc_runtime
from specc.bench.options import BenchOptions
from specc.bench.peers.workers import PEERS, PeerPackage
from specc.bench.report import BenchReport
from specc_runtime import Engine, SamplingParams
from tests.bench.test_running import engine_of
from tests.support.bench_reports import report


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("one\ntwo\nthree\n")
    return file


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each benchmark was asked for; running it is replaced, and so is loading the bundle."""
    calls: list[dict[str, Any]] = []
    engine, _ = engine_of(tmp_path)

    class Loader:
        @staticmethod
        def load(path: Path, **options: Any) -> Engine:
            calls.append({"path": path, **options})
            return engine

    def run(engine: Engine, questions: object, options: object, peers: object, progress: object) -> BenchReport:
        calls[-1] |= {"questions": questions, "options": options, "peers": peers}
        return report()

    monkeypatch.setattr(specc_runtime, "Engine", Loader)
    monkeypatch.setattr(specc.bench.benchmarking, "run_benchmark", run)
    return calls


def test_defaults(asked: list[dict[str, Any]], specc: Callable[..., Any], prompts: Path) -> None:
    outcome = specc("bench", "b", "--prompts", prompts)
    assert outcome.code == 0, outcome.err
    (call,) = asked
    assert (call["path"], call["threads"], call["peers"]) == (Path("b"), None, [])
    assert sorted(question.turns for question in call["questions"]) == [("one",), ("three",), ("two",)]
    sampling = SamplingParams(max_new_tokens=128, seed=0)
    assert call["options"] == BenchOptions(gamma=4, drafter="draft", sampling=sampling)


def test_every_option_arrives(asked: list[dict[str, Any]], specc: Callable[..., Any], prompts: Path) -> None:
    line = (
        "--limit 2 --turns 2 --no-chat --max-new-tokens 9 --temperature 0.5 --top-p 0.9 --top-k 7 --seed 3 "
        "--ignore-eos --gamma auto --drafter ngram --threads 2"
    )
    assert specc("bench", "b", "--prompts", prompts, *line.split()).code == 0
    (call,) = asked
    assert len(call["questions"]) == 2
    sampling = SamplingParams(max_new_tokens=9, temperature=0.5, top_p=0.9, top_k=7, seed=3, ignore_eos=True)
    expected = BenchOptions(gamma="auto", drafter="ngram", sampling=sampling, turns=2, chat=False, threads=2)
    assert (call["options"], call["threads"]) == (expected, 2)


def test_report_is_tables_and_the_verdict(asked: object, specc: Callable[..., Any], prompts: Path) -> None:
    out = specc("bench", "b", "--prompts", prompts).out
    for text in (
        "Decoding speed",
        "summaries & <lists>",
        "break-even",
        "engine 1.2, plain",
        "Speculation makes no sure difference",
        "It loses on maths",
        "If every drafted token were accepted it would be 2.14x.",
        "Peak memory: 500.0 MiB.",
    ):
        assert text in out


def test_json_goes_to_stdout_or_to_a_file(
    asked: object, specc: Callable[..., Any], prompts: Path, tmp_path: Path
) -> None:
    printed = specc("bench", "b", "--prompts", prompts, "--json").out
    outcome = specc("bench", "b", "--prompts", prompts, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert json.loads(printed) == json.loads((tmp_path / "r.json").read_text())
    assert "Decoding speed" in outcome.out
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_whole_file_is_one_prompt(asked: list[dict[str, Any]], specc: Callable[..., Any], prompts: Path) -> None:
    specc("bench", "b", "--prompts", prompts, "--whole-file")
    assert [question.turns for question in asked[0]["questions"]] == [("one\ntwo\nthree",)]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("", 2, "--prompts"),
        ("--prompts missing.txt", 1, "missing.txt: No such file or directory"),
        ("--prompts {prompts} --limit 0", 2, "--limit"),
        ("--prompts {prompts} --gamma many", 2, "neither a number nor auto"),
        ("--prompts {prompts} --temperature -1", 2, "temperature"),
        ("--prompts {prompts} --against llama", 1, "unknown engine 'llama'"),
        ("--prompts {prompts} --against absent", 1, 'pip install "absent>=1"'),
        ("--prompts {prompts} --against absent --temperature 1", 2, "--against compares greedy decoding"),
    ],
)
def test_bad_request_is_one_line(
    asked: object,
    specc: Callable[..., Any],
    prompts: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    code: int,
    message: str,
) -> None:
    monkeypatch.setitem(PEERS, "absent", PeerPackage("none", "no_such_module", "absent>=1"))
    outcome = specc("bench", "b", *line.format(prompts=prompts).split())
    assert outcome.code == code
    assert message in outcome.err
    assert outcome.err.count("specc: error: ") == 1


def test_peers_answer_the_same_prompts(
    specc: Callable[..., Any], prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command, on models of tables and an engine that counts."""
    engine, _ = engine_of(tmp_path)
    monkeypatch.setattr(Engine, "load", lambda *_, **__: engine)
    monkeypatch.setitem(PEERS, "fake", PeerPackage("tests.support.fake_peer", "json", "fake>=1"))
    line = ("--against", "fake", "--model", "m", "--max-new-tokens", 8, "--ignore-eos", "--gamma", 2, "--json")
    outcome = specc("bench", tmp_path, "--prompts", prompts, *line)
    assert outcome.code == 0, outcome.err
    written = json.loads(outcome.out)
    assert [(peer["name"], peer["mode"]) for peer in written["peers"]] == [("fake", "plain"), ("fake", "twice")]
    assert {len(trial["sides"]) for trial in written["trials"]} == {4}
    assert written["peers"][0]["speed"]["tokens_per_s"] == pytest.approx(7 / (0.5 * 8))
