import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc_runtime.output import Output
from specc_runtime.text import TextStream

LETTERS = "abcdefgh"


class Letters:
    """A codec whose token i is the i-th of a few strings."""

    def __init__(self, *words: str) -> None:
        self._words = words or tuple(LETTERS)

    def decode(self, ids: list[int]) -> str:
        return "".join(self._words[token] for token in ids)


def output_of(*words: str, stops: tuple[str, ...] = ()) -> tuple[Output, list[str]]:
    shown: list[str] = []
    return Output(TextStream(Letters(*words)), stops, shown.append), shown


def give_all(output: Output, blocks: list[list[int]]) -> tuple[list[int], bool, int]:
    """Ids given out, whether a stop string ended the text, and tokens taken."""
    given, taken = [], 0
    for block in blocks:
        result = output.add(block)
        given += result.ids
        taken += result.taken
        if result.stopped:
            return given, True, taken
    last = output.finish()
    return given + last.ids, last.stopped, taken


def test_without_text_ids_pass_through() -> None:
    output = Output(None, (), None)
    assert output.add([1, 2]) == ([1, 2], 2, False)
    assert output.finish() == ([], 0, False)
    assert (output.ids, output.text) == ([1, 2], None)


def test_ids_wait_with_the_start_of_a_stop_string() -> None:
    output, shown = output_of(stops=("cde",))
    assert output.add([0, 1, 2]).ids == [0, 1]
    assert output.add([3]).ids == []
    assert output.add([5]).ids == [2, 3, 5]
    assert shown == ["a", "b", "cdf"]


def test_a_stop_string_cuts_ids_and_text_at_the_same_place() -> None:
    output, shown = output_of(stops=("cde",))
    assert give_all(output, [[0, 1, 2], [3, 4, 5, 6]]) == ([0, 1], True, 5)
    assert output.text == "".join(shown) == "ab"
    assert output.ids == [0, 1]


def test_a_token_that_is_partly_stop_string_is_not_given_out() -> None:
    output, _ = output_of("ab", "c\nEN", "D", "x", stops=("\nEND",))
    assert give_all(output, [[0, 1, 2, 3]]) == ([0], True, 3)
    assert output.text == "abc"


def test_the_end_releases_what_was_held() -> None:
    output, shown = output_of(stops=("cde",))
    assert give_all(output, [[0, 2, 3]]) == ([0, 2, 3], False, 3)
    assert "".join(shown) == "acd"


def test_a_stop_string_hidden_in_an_unfinished_longer_one() -> None:
    output, _ = output_of(stops=("bcdef", "cd"))
    assert give_all(output, [[0, 1, 2, 3]]) == ([0, 1], True, 4)
    assert output.text == "ab"


@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=3),
    st.data(),
)
def test_blocks_do_not_matter(ids: list[int], stops: list[str], data: st.DataObject) -> None:
    """Cut into blocks of any size, ids and text are those of one token at a time, and hold no stop string."""
    single, single_shown = output_of(stops=tuple(stops))
    blocks, rest = [], ids
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        blocks.append(rest[:size])
        rest = rest[size:]
    blocked, blocked_shown = output_of(stops=tuple(stops))
    assert give_all(blocked, blocks) == give_all(single, [[token] for token in ids])
    assert blocked.text == single.text == "".join(blocked_shown) == "".join(single_shown)
    assert not any(stop in (blocked.text or "") for stop in stops)
    assert Letters().decode(blocked.ids) == blocked.text


@pytest.mark.parametrize("stops", [("zz",), ()])
def test_nothing_is_lost_without_a_match(stops: tuple[str, ...]) -> None:
    output, shown = output_of(stops=stops)
    assert give_all(output, [[0, 1], [2], [3, 4, 5]]) == ([0, 1, 2, 3, 4, 5], False, 6)
    assert "".join(shown) == "abcdef"
