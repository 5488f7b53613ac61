import pytest
from hypothesis import given
from hypothesis import strategies as st

from specc_runtime.stop import StopMatcher, cut_at


def stream(matcher: StopMatcher, pieces: list[str]) -> tuple[list[str], bool]:
    given_out = []
    for piece in pieces:
        text, stopped = matcher.feed(piece)
        given_out.append(text)
        if stopped:
            return given_out, True
    text, stopped = matcher.flush()
    return [*given_out, text], stopped


def expected(text: str, stops: list[str]) -> tuple[str, bool]:
    starts = [text.find(stop) for stop in stops if stop in text]
    return (text[: min(starts)], True) if starts else (text, False)


def test_a_partial_stop_string_is_held_back() -> None:
    matcher = StopMatcher(["STOP"])
    assert matcher.feed("one S") == ("one ", False)
    assert matcher.feed("TO") == ("", False)
    assert matcher.feed("RY") == ("STORY", False)
    assert matcher.feed("!ST") == ("!", False)
    assert matcher.feed("OP and more") == ("", True)
    assert matcher.emitted == len("one STORY!")


def test_what_is_held_back_comes_out_at_the_end() -> None:
    matcher = StopMatcher(["STOP"])
    assert matcher.feed("the ST") == ("the ", False)
    assert matcher.flush() == ("ST", False)


def test_a_match_waits_for_a_longer_stop_string_that_started_earlier() -> None:
    matcher = StopMatcher(["abcd", "bc"])
    assert matcher.feed("xabc") == ("x", False)
    assert matcher.feed("d") == ("", True)
    matcher = StopMatcher(["abcd", "bc"])
    matcher.feed("xabc")
    assert matcher.feed("e") == ("a", True)
    matcher = StopMatcher(["abcd", "bc"])
    matcher.feed("xabc")
    assert matcher.flush() == ("a", True)


def test_without_stop_strings_everything_passes_at_once() -> None:
    matcher = StopMatcher([])
    assert matcher.feed("abc") == ("abc", False)
    assert matcher.flush() == ("", False)


def test_a_stop_string_that_overlaps_itself() -> None:
    assert stream(StopMatcher(["aab"]), list("aaab")) == (["", "", "a", ""], True)


alphabet = st.text("ab\n", max_size=12)


@given(pieces=st.lists(alphabet, max_size=6), stops=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_the_outcome_depends_on_the_text_alone(pieces: list[str], stops: list[str]) -> None:
    text = "".join(pieces)
    out, stopped = stream(StopMatcher(stops), pieces)
    assert ("".join(out), stopped) == expected(text, stops)


@given(text=alphabet, stops=st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_no_character_of_a_stop_string_is_ever_given_out(text: str, stops: list[str]) -> None:
    matcher, out = StopMatcher(stops), ""
    final, _ = expected(text, stops)
    for character in text:
        piece, stopped = matcher.feed(character)
        out += piece
        assert final.startswith(out)
        assert matcher.emitted == len(out)
        if stopped:
            break


@given(text=alphabet, stops=st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_no_more_is_held_back_than_the_longest_stop_string_needs(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    for fed, character in enumerate(text, start=1):
        _, stopped = matcher.feed(character)
        if stopped:
            break
        assert fed - matcher.emitted < max(map(len, stops))


@pytest.mark.parametrize(
    ("ids", "index"), [([], None), ([1, 2], None), ([9], 0), ([1, 8, 9], 1), ([1, 2, 9], 2)]
)  # fmt: skip
def test_cut_at_the_first_stop_id(ids: list[int], index: int | None) -> None:
    assert cut_at(ids, {8, 9}) == index
