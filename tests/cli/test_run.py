import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import specc_runtime
from specc.render.chat import conversation
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
def defaults() -> dict[str, Any]:
    """Fields of the manifest that differ from the tables' own."""
    return {}


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defaults: dict[str, Any]) -> list[dict[str, Any]]:
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
            return Engine(Bundle(tmp_path, replace(engine.manifest, tokenizer=info, **defaults)), table)

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
    monkeypatch.setattr("specc.speculation.differences.first_difference", lambda one, other: 7)
    assert "no, they differ from token 7 on" in generate("--prompt", "hello", "--compare").err
    assert "their law is the same" in generate("--prompt", "hello", "--compare", "--temperature", 1).err


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


@pytest.mark.parametrize("gamma", ["auto", 2])
def test_gamma_arrives(generate: Callable[..., Any], gamma: object) -> None:
    plain = json.loads(generate("--prompt", "hello", "--plain", "--json").out)
    record = json.loads(generate("--prompt", "hello", "--gamma", gamma, "--json").out)
    assert record["ids"] == plain["ids"]
    assert record["stats"]["spec_decode_num_drafts"] > 0


def test_bundle_that_decodes_plainly_by_default_says_so(generate: Callable[..., Any], defaults: dict[str, Any]) -> None:
    defaults["gamma"] = 0
    assert "plain, as drafting did not pay" in generate("--prompt", "hello").err
    assert "speculative" in generate("--prompt", "hello", "--gamma", 2).err


def test_compare_drafts_where_the_bundle_decodes_plainly_by_default(
    generate: Callable[..., Any], defaults: dict[str, Any]
) -> None:
    defaults["gamma"] = 0
    compared = generate("--prompt", "hello", "--compare")
    assert "speculative" in compared.err
    assert "as drafting did not pay" not in compared.err
    assert "tokens identical to plain decoding: yes" in compared.err
    record = json.loads(generate("--prompt", "hello", "--compare", "--json").out)
    assert record["stats"]["spec_decode_num_drafts"] > 0


def test_compared_runs_both_read_the_prompt(generate: Callable[..., Any]) -> None:
    record = json.loads(generate("--prompt", "hello", "--compare", "--json").out)
    read = [run["stats"]["verifier_prefilled_tokens"] for run in (record, record["plain"])]
    assert read == [len("hello"), len("hello")]


def test_engine_options_arrive(generate: Callable[..., Any], loads: list[dict[str, Any]], tmp_path: Path) -> None:
    generate("--prompt", "a", "--threads", 2)
    assert loads == [{"path": tmp_path, "threads": 2, "fused": False}]


def test_several_texts_of_one_request(generate: Callable[..., Any]) -> None:
    sampled = ("--prompt", "hello", "--temperature", 1, "--seed", 5, "--n", 3)
    samples = json.loads(generate(*sampled, "--json").out)["samples"]
    assert len({tuple(sample["ids"]) for sample in samples}) == 3
    outcome = generate(*sampled)
    assert outcome.out == "".join(sample["text"] + "\n" for sample in samples)
    for text in ("sample 1", "sample 3", "tokens per round"):
        assert text in outcome.err


def test_options_of_single_tokens_arrive(generate: Callable[..., Any]) -> None:
    def ids(*arguments: object) -> list[int]:
        return list(json.loads(generate("--prompt", "hello", "--json", *arguments).out)["ids"])

    unedited = ids()
    assert set(ids("--allowed-token-id", 3, "--allowed-token-id", 7)) <= {3, 7}
    assert not set(unedited) & set(ids(*(part for token in unedited for part in ("--forbidden-token-id", token))))
    assert ids("--logit-bias", "9=200", "--logit-bias", "11=1e3") == [11] * 20
    assert ids("--logit-bias", f"{unedited[0]}=-200")[0] != unedited[0]
    assert ids("--stop-token-id", unedited[4]) == unedited[: unedited.index(unedited[4]) + 1]


def test_logprobs_are_part_of_the_json_record(generate: Callable[..., Any]) -> None:
    record = json.loads(generate("--prompt", "hello", "--json", "--logprobs", 2).out)
    assert [entry["token"] for entry in record["logprobs"]] == record["ids"]
    assert all(entry["top"][0] == [entry["token"], entry["logprob"]] for entry in record["logprobs"])
    assert len(record["logprobs"][0]["top"]) == 2
    assert "logprobs" not in json.loads(generate("--prompt", "hello", "--json").out)


def test_full_verification_points_are_told_of(generate: Callable[..., Any]) -> None:
    outcome = generate("--prompt", "hello", "--verify-every", 8)
    assert re.search(r"full verifications +3 in \d+\.\d\d s", outcome.err)
    assert re.search(r"largest logit difference +0 ", outcome.err)
    assert "full verifications" not in generate("--prompt", "hello").err
    stats = json.loads(generate("--prompt", "hello", "--verify-every", 8, "--json").out)["stats"]
    assert (stats["full_verifications"], stats["largest_logit_difference"]) == (3, 0.0)
    assert stats["full_verification_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "remark"),
    [
        (("--top-k", 3, "--min-p", 0.1), "--top-k, --min-p had no effect: at temperature 0"),
        (("--n", 2), "all 2 texts are the same at temperature 0"),
        (("--fused",), "--fused had no effect: no program runs whole rounds"),
        (("--max-new-tokens", 500), "the context of 128 positions is full; compile with a larger --context"),
    ],
)
def test_what_had_no_effect_is_said(generate: Callable[..., Any], arguments: tuple[Any, ...], remark: str) -> None:
    outcome = generate("--prompt", "hello", *arguments)
    assert outcome.code == 0
    assert f"specc: warning: {remark}" in outcome.err


def test_nothing_is_said_of_options_that_count(generate: Callable[..., Any]) -> None:
    sampled = generate("--prompt", "hello", "--temperature", 1, "--top-k", 3, "--top-p", 0.9, "--n", 2)
    assert "warning" not in sampled.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--prompt", "a", "--prompt-file", "f"), 2, "the prompt is given twice"),
        (("--prompt", "a", "--plain", "--compare"), 2, "leave --plain out"),
        (("--prompt", "a", "--plain", "--gamma", 2), 2, "--plain drafts nothing; leave --gamma out"),
        (("--prompt", "a", "--plain", "--drafter", "ngram"), 2, "leave --drafter out"),
        (("--prompt", "a", "--plain", "--fused"), 2, "leave --fused out"),
        (("--prompt", "a", "--n", 2, "--compare"), 2, "leave --n out"),
        (("--prompt", "a", "--n", 0), 2, "n is 0"),
        (("--prompt", "a", "--logprobs", 1), 2, "part of --json; add it"),
        (("--prompt", "a", "--logit-bias", "5"), 2, "'5' is no ID=VALUE, e.g. 42=-5"),
        (("--prompt", "a", "--logit-bias", "x=1"), 2, "'x=1' is no ID=VALUE"),
        (("--prompt", "a", "--logit-bias", "999=1"), 2, "logit_bias holds id 999"),
        (("--prompt", "a", "--forbidden-token-id", 999), 2, "forbidden_token_ids holds id 999"),
        (("--prompt", "a", "--temperature", -1), 2, "temperature"),
        (("--prompt", "a", "--top-p", 0), 2, "top_p"),
        (("--prompt", "a", "--drafter", "nobody"), 2, "nobody"),
        (("--prompt", "a", "--gamma", "some"), 2, "'some' is neither a number nor auto"),
        (("--prompt", "a", "--gamma", 99), 2, "gamma is 99"),
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


def test_an_empty_prompt_file_is_refused(generate: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("\n")
    outcome = generate("--chat", "--prompt-file", file)
    assert outcome.code == 2
    assert "prompt.txt holds no prompt" in outcome.err


def test_bundle_without_chat_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="has no chat template; run it without --chat"):
        conversation(tmp_path, TokenizerInfo("tokenizer.json", VOCABULARY), [{"role": "user", "content": "hi"}])
