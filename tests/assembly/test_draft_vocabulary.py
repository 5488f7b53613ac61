from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specc.assembly.draft_vocabulary import head_ids
from specc.errors import OptionError
from specc.options import DraftVocabulary
from tests.support.refusals import refuses

TEXT = np.array([4, 4, 4, 2, 2, 7, 9, 9])


def text() -> NDArray[np.int64]:
    return TEXT


def never() -> NDArray[np.int64]:
    raise AssertionError("a file needs no counts")


@pytest.mark.parametrize(
    ("count", "always", "expected"),
    [
        (2, (), [2, 4]),  # 2 and 9 are equally frequent: the smaller id
        (3, (), [2, 4, 9]),
        (6, (), [0, 1, 2, 4, 7, 9]),  # what the text lacks follows by id
        (2, (8,), [4, 8]),
        (3, (8, 6), [4, 6, 8]),
        (10, (), list(range(10))),
    ],
)
def test_the_most_frequent(count: int, always: tuple[int, ...], expected: list[int]) -> None:
    ids = head_ids(DraftVocabulary(count=count), 10, always, text)
    assert ids.tolist() == expected
    assert ids.dtype == np.int32


def test_ids_from_common_on_are_never_kept() -> None:
    """Neither counted in the text nor asked for."""
    assert head_ids(DraftVocabulary(count=3), 5, (9,), text).tolist() == [0, 2, 4]


def test_more_than_there_are() -> None:
    with refuses(OptionError, "draft-vocab: 11 tokens of a vocabulary of 10"):
        head_ids(DraftVocabulary(count=11), 10, (), text)


def test_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ids"
    file.write_text("7\n3 5\n\n7\n")
    assert head_ids(DraftVocabulary(file=file), 8, (0,), never).tolist() == [3, 5, 7]


def test_neither_a_number_nor_a_file() -> None:
    with refuses(OptionError, "draft-vocab: 1e9: is neither a number of tokens nor a file; give e.g. 8192"):
        head_ids(DraftVocabulary(file=Path("1e9")), 8, (), never)


@pytest.mark.parametrize("content", ["a", "1 2.5", "3", "", "1 8", "-1 2", "1 99999999999999999999"])
def test_file_of_something_else(content: str, tmp_path: Path) -> None:
    file = tmp_path / "ids"
    file.write_text(content)
    with refuses(OptionError, "draft-vocab", file, "give"):
        head_ids(DraftVocabulary(file=file), 8, (), never)
