import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.history import TokenHistory


def propose(tokens: list[int], gamma: int = 4, longest: int = 3) -> list[int]:
    return _draft(NgramDrafter(longest), TokenHistory(tokens, 100), gamma)


def _draft(drafter: NgramDrafter, history: TokenHistory, gamma: int) -> list[int]:
    draft = drafter.propose(history, gamma, np.zeros(gamma))
    assert draft.laws is None
    assert draft.ids.dtype == np.int64
    return draft.ids.tolist()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 1, 2, 3], [4, 5, 6, 7]),
        ([9, 3, 8, 8, 8, 8, 1, 2, 3, 4, 5, 6, 7, 2, 3], [4, 5, 6, 7]),  # the longer ending wins over the newer match
        ([3, 1, 1, 1, 1, 3, 2, 2, 2, 2, 3], [2, 2, 2, 2]),  # the newest match wins
        ([1, 2, 3, 4], []),  # nothing occurs twice
        ([5], []),
        ([5, 5], [5, 5, 5, 5]),
        ([1, 2, 3, 1, 2, 3, 1], [2, 3, 1, 2]),  # a loop goes on beyond the text's end
    ],
)
def test_what_followed_the_last_occurrence(tokens: list[int], expected: list[int]) -> None:
    assert propose(tokens) == expected


@pytest.mark.parametrize("gamma", range(1, 7))
def test_never_more_than_gamma(gamma: int) -> None:
    assert propose([1, 2, 3, 4, 5, 6, 7, 8, 1], gamma) == [2, 3, 4, 5, 6, 7][:gamma]


def by_scanning(tokens: list[int], gamma: int, longest: int) -> list[int]:
    """The definition: longest ending first, newest occurrence first, then copy, over the end into the copy itself."""
    for length in range(min(longest, len(tokens) - 1), 0, -1):
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == tokens[-length:]:
                text = list(tokens)
                for at in range(start + length, start + length + gamma):
                    text.append(text[at])
                return text[len(tokens) :]
    return []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.lists(st.integers(1, 9)), st.integers(1, 4), st.data())
def test_the_index_finds_what_a_scan_finds(
    tokens: list[int], steps: list[int], longest: int, data: st.DataObject
) -> None:
    """However many tokens are committed between two proposals."""
    history, drafter = TokenHistory(tokens[:1], 100), NgramDrafter(longest)
    rest = tokens[1:]
    for step in [*steps, len(rest)]:
        gamma = data.draw(st.integers(1, 5))
        assert _draft(drafter, history, gamma) == by_scanning(history.ids.tolist(), gamma, longest)
        history.extend(rest[:step])
        rest = rest[step:]


def test_tokens_are_indexed_once() -> None:
    history, drafter = TokenHistory([1] * 1000, 100), NgramDrafter()
    _draft(drafter, history, 4)
    before = dict(drafter._follows)
    history.extend([7])
    _draft(drafter, history, 4)
    changed = {key for key, value in drafter._follows.items() if before.get(key) != value}
    assert len(changed) <= 3
