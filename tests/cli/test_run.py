import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import specc_runtime
from specc.cli.prompts import chat_turn
from specc.cli.timing import first_difference
from specc_runtime import Engine
from specc_runtime.bundle import Bundle
from specc_runtime.errors import TokenizerError
from specc_runtime.manifest import TokenizerInfo
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.table_programs import table_engine, with_memory

BOS, EOS = 256, 257
VOCABULARY = 258
TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}"


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How engines were loaded; each is one of tables, with a byte tokenizer and a chat template."""
    (tmp_path / "tokenizer.json").write_text(tiny_tokenizer_json(VOCABULARY, ["<s>", "</s>"]))
    info = TokenizerInfo("tokenizer.json", VOCABULARY, bos_id=BOS, eos_ids=(EOS,), chat_template=TEMPLATE)
    calls: list[dict[str, Any]] = []

    class Loader:
        @staticmethod
        def load(path: Path, **options: Any) -> Engine:
            calls.append({"path": path, **options})
            model = with_memory(VOCABULARY, seed=3, sharpness=9)
            engine, table = table_engine(model, model, vocabulary=VOCABULARY, context=128)
            return Engine(Bundle(tmp_path, replace(engine.manifest, tokenizer=info)), table)

    monkeypatch.setattr(specc_runtime, "Engine", Loader)
    return calls


@pytest.fixture
def generate(loads: list[dict[str, Any]], specc: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    return lambda *arguments: specc("run", tmp_path, "--ignore-eos", "--max-new-tokens", 20, *arguments)


def test_text_on_stdout_figures_on_stderr(generate: Callable[..., Any]) -> None:
    plain = json.loads(generate("--prompt", "hello", "--plain", "--json").out)
    outcome = generate("--prompt", "hello")
    assert outcome.code == 0
    assert outcome.out == plain["text"] + "\n"
    for text in ("speculative", "tokens/s", "20 (length)", "tokens per round", "accepted"):
        assert text in outcome.err


def test_compare_says_that_the_tokens_are_identical(generate: Callable[..., Any]) -> None:
    outcome = generate("--prompt", "hello", "--compare")
    assert outcome.code == 0
    assert "tokens identical to plain decoding: yes" in outcome.err


def test_json_record(generate: Callable[..., Any]) -> None:
    outcome = generate("--prompt", "hello", "--compare", "--json", "--seed", 7)
    record = json.loads(outcome.out)
    assert record["ids"] == record["plain"]["ids"]
    assert (record["identical"], record["first_difference"]) == (True, None)
    assert (record["seed"], record["prompt_tokens"], record["finish_reason"]) == (7, 5, "length")
    assert record["stats"]["spec_decode_num_draft_tokens"] > 0
    assert record["plain"]["stats"]["spec_decode_num_draft_tokens"] == 0


def test_difference_is_reported_with_its_place(generate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specc.cli.timing.first_difference", lambda one, other: 7)
    assert "no, they differ from token 7 on" in generate("--prompt", "hello", "--compare").err
    assert "their law is the same" in generate("--prompt", "hello", "--compare", "--temperature", 1).err


def test_first_difference() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2


def test_chat_puts_the_prompt_into_the_template(generate: Callable[..., Any]) -> None:
    chat = json.loads(generate("--prompt", "hi", "--chat", "--json").out)
    written = json.loads(generate("--prompt", "<s>[user: hi]", "--json").out)
    assert chat["ids"] == written["ids"]
    assert chat["prompt_tokens"] == 1 + len("[user: hi]")


def test_prompt_comes_from_a_file_or_stdin(
    generate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads(generate("--prompt", "a\nb", "--json").out)["ids"]
    file = tmp_path / "prompt.txt"
    file.write_text("a\nb\n")
    assert json.loads(generate("--prompt-file", file, "--json").out)["ids"] == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert json.loads(generate("--json").out)["ids"] == expected


def test_engine_options_arrive(generate: Callable[..., Any], loads: list[dict[str, Any]], tmp_path: Path) -> None:
    generate("--prompt", "a", "--threads", 2)
    assert loads == [{"path": tmp_path, "threads": 2, "fused": False}]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--prompt", "a", "--prompt-file", "f"), 2, "the prompt is given twice"),
        (("--prompt", "a", "--plain", "--compare"), 2, "leave --plain out"),
        (("--prompt", "a", "--temperature", -1), 2, "temperature"),
        (("--prompt", "a", "--top-p", 0), 2, "top_p"),
        (("--prompt", "a", "--drafter", "nobody"), 2, "nobody"),
        (("--prompt", ""), 1, "prompt"),
        (("--prompt", "a" * 200), 1, "context"),
        (("--prompt-file", "missing.txt"), 1, "missing.txt: No such file or directory"),
    ],
)
def test_bad_request_is_one_line(
    generate: Callable[..., Any], arguments: tuple[Any, ...], code: int, message: str
) -> None:
    outcome = generate(*arguments)
    assert outcome.code == code
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_prompt_that_is_not_utf8_is_refused(generate: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"ab\xff")
    outcome = generate("--prompt-file", file)
    assert outcome.code == 2
    assert "prompt.txt is not UTF-8 text (byte 2)" in outcome.err


def test_bundle_without_chat_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="has no chat template; run it without --chat"):
        chat_turn(tmp_path, TokenizerInfo("tokenizer.json", VOCABULARY), "hi")
