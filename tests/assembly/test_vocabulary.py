import json
from pathlib import Path

import pytest

from specc.assembly.vocabulary import Vocabulary, check_same_vocabulary, read_vocabulary
from specc.checkpoint import open_checkpoint
from specc.checkpoint.types import Checkpoint, TokenizerFiles, Weights
from specc.errors import VocabularyError
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.refusals import refuses
from tests.support.tiny_models import EOS, TOKENS, tiny_model


def with_tokenizer(document: dict[str, object]) -> Checkpoint:
    return Checkpoint("m", "m", {}, Weights({}), TokenizerFiles(json.dumps(document)))


def of(*tokens: str) -> Vocabulary:
    return Vocabulary(len(tokens), dict(enumerate(tokens)))


def test_ids_of_a_bpe_and_its_added_tokens() -> None:
    text = tiny_tokenizer_json(TOKENS, [EOS])
    vocabulary = read_vocabulary(Checkpoint("m", "m", {}, Weights({}), TokenizerFiles(text)), 320)
    assert vocabulary.count == TOKENS
    assert (vocabulary.ids[0], vocabulary.ids[TOKENS - 1]) == ("a", EOS)


def test_ids_of_a_unigram() -> None:
    document = {"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.5]]}, "added_tokens": None}
    assert read_vocabulary(with_tokenizer(document), 8) == of("<unk>", "a")


def test_holes_count_as_ids() -> None:
    document = {"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 5, "content": "<end>"}]}
    assert read_vocabulary(with_tokenizer(document), 8) == Vocabulary(6, {0: "a", 1: "b", 5: "<end>"})


def test_without_tokenizer_every_row_is_an_id(tmp_path: Path) -> None:
    assert read_vocabulary(open_checkpoint(str(tiny_model(tmp_path, tokenizer=None))), 300) == Vocabulary(300)


def test_more_ids_than_rows() -> None:
    with refuses(VocabularyError, "m: its tokenizer has id 1 but the embedding only 1 rows", "another checkpoint"):
        read_vocabulary(with_tokenizer({"model": {"vocab": {"a": 0, "b": 1}}}), 1)


@pytest.mark.parametrize(
    ("verifier", "drafter", "rows", "common"),
    [
        (of("a", "b", "c"), of("a", "b", "c"), 3, 3),
        (of("a", "b", "c"), of("a", "b", "c"), 8, 3),
        (of("a", "b", "c"), of("a", "b"), 4, 2),
        (of("a", "b"), of("a", "b", "c"), 4, 2),
        (Vocabulary(5), Vocabulary(5), 5, 5),
        (of("a", "b"), Vocabulary(2), 2, 2),
        (Vocabulary(3, {0: "a", 2: "c"}), Vocabulary(3, {0: "a", 2: "c"}), 3, 3),
    ],
)
def test_ids_both_have(verifier: Vocabulary, drafter: Vocabulary, rows: int, common: int) -> None:
    assert check_same_vocabulary(verifier, drafter, rows, "d") == common


@pytest.mark.parametrize(
    ("verifier", "drafter", "rows", "fragments"),
    [
        (of("a", "b", "c"), of("a", "x", "y"), 3, ["token id 1 is 'x' for the drafter and 'b' for the verifier"]),
        (of("a", "b"), Vocabulary(2, {0: "a", 5: "z"}), 9, ["token id 1 is absent for the drafter"]),
        (of("a", "b", "c"), of("a", "b"), 2, ["its embedding has 2 rows", "ids up to 2"]),
        (of("a", "b"), Vocabulary(4), 4, ["4 token ids against the verifier's 2", "add tokenizer.json"]),
        (Vocabulary(4), of("a", "b"), 4, ["2 token ids against the verifier's 4", "add tokenizer.json"]),
    ],
)
def test_different_vocabularies(verifier: Vocabulary, drafter: Vocabulary, rows: int, fragments: list[str]) -> None:
    with refuses(VocabularyError, "path/of/drafter: ", *fragments):
        check_same_vocabulary(verifier, drafter, rows, "path/of/drafter")
