import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from specc_runtime.cache import ModelCache
from specc_runtime.errors import ContextError


class Recorder:
    """An engine that notes what it is fed, and can be told to fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], int, int]] = []
        self.fails = False

    def __call__(self, tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        self.calls.append((tokens.tolist(), position, rows))
        if self.fails:
            raise RuntimeError("engine")
        return np.zeros((rows, 3), np.float32)


def ids(*tokens: int) -> NDArray[np.int64]:
    return np.array(tokens, np.int64)


def test_only_rows_that_agree_count() -> None:
    cache = ModelCache(Recorder(), rows=10, max_width=10)
    assert cache.agreed(ids(1, 2)) == 0
    cache.feed(ids(1, 2, 3, 4), 0, 0)
    assert cache.agreed(ids(1, 2, 3, 4, 5)) == 4
    assert cache.agreed(ids(1, 2, 9, 4)) == 2
    assert cache.agreed(ids(9)) == 0
    assert cache.agreed(ids(1)) == 1
    assert cache.agreed(ids()) == 0


def test_rows_behind_a_write_are_not_trusted() -> None:
    cache = ModelCache(Recorder(), rows=10, max_width=10)
    cache.feed(ids(1, 2, 3, 4), 0, 0)
    cache.feed(ids(2), 1, 1)
    assert cache.agreed(ids(1, 2, 3, 4)) == 2


def test_long_texts_are_fed_in_chunks_and_only_the_last_row_is_asked_for() -> None:
    engine = Recorder()
    cache = ModelCache(engine, rows=10, max_width=3)
    cache.feed(ids(0), 0, 0)
    assert cache.extend(np.arange(8), 1, rows=1).shape == (1, 3)
    assert engine.calls[1:] == [([1, 2, 3], 1, 0), ([4, 5, 6], 4, 0), ([7], 7, 1)]
    assert cache.effort.prefilled_tokens == 7


@pytest.mark.parametrize("method", ["feed", "extend"])
def test_a_failed_call_leaves_no_row_behind_it(method: str) -> None:
    engine = Recorder()
    cache = ModelCache(engine, rows=10, max_width=3)
    cache.extend(np.arange(6), 0)
    engine.fails = True
    with pytest.raises(RuntimeError, match="engine"):
        cache.feed(ids(3, 4), 3, 0) if method == "feed" else cache.extend(np.arange(6), 3)
    assert cache.agreed(np.arange(6)) == 3


def test_a_write_that_leaves_a_hole_or_the_cache_is_refused() -> None:
    cache = ModelCache(Recorder(), rows=4, max_width=9)
    with pytest.raises(ContextError, match="0 are written"):
        cache.feed(ids(1), 1, 0)
    with pytest.raises(ContextError, match=r"rows 0 \.\.\. 4 of 4"):
        cache.feed(ids(1, 2, 3, 4, 5), 0, 0)


def test_forgotten_rows_are_not_trusted() -> None:
    cache = ModelCache(Recorder(), rows=10, max_width=10)
    cache.feed(ids(1, 2, 3), 0, 0)
    cache.forget(4)
    assert cache.agreed(ids(1, 2, 3)) == 3
    cache.forget(1)
    assert cache.agreed(ids(1, 2, 3)) == 1


@pytest.mark.parametrize("method", ["feed", "extend", "record", "forget"])
def test_what_is_written_anew_is_not_trusted_where_it_is_followed(method: str) -> None:
    engine = Recorder()
    cache = ModelCache(engine, rows=10, max_width=10)
    follower = ModelCache(Recorder(), rows=10, max_width=10, follows=cache)
    cache.feed(np.arange(6), 0, 0)
    follower.feed(np.arange(1, 6), 0, 0)
    calls = {
        "feed": lambda: cache.feed(ids(2), 2, 1),
        "extend": lambda: cache.extend(np.arange(6), 2),
        "record": lambda: cache.record(ids(2), 2),
        "forget": lambda: cache.forget(2),
    }
    calls[method]()
    assert follower.agreed(np.arange(1, 6)) == 2
    follower.feed(ids(9), 1, 0)
    assert cache.agreed(np.arange(6)) >= 2


def test_a_failed_call_is_not_trusted_where_it_is_followed() -> None:
    engine = Recorder()
    cache = ModelCache(engine, rows=10, max_width=10)
    follower = ModelCache(Recorder(), rows=10, max_width=10, follows=cache)
    cache.feed(np.arange(6), 0, 0)
    follower.feed(np.arange(1, 6), 0, 0)
    engine.fails = True
    with pytest.raises(RuntimeError, match="engine"):
        cache.feed(ids(3), 3, 1)
    assert follower.agreed(np.arange(1, 6)) == 3


@given(
    st.lists(st.tuples(st.integers(0, 8), st.lists(st.integers(0, 2), min_size=1, max_size=4)), max_size=12), st.data()
)
def test_agreed_rows_are_those_an_engine_would_have(writes: list[tuple[int, list[int]]], data: st.DataObject) -> None:
    engine_rows: list[int] = []
    cache = ModelCache(Recorder(), rows=20, max_width=4)
    for position, tokens in writes:
        at = min(position, len(engine_rows))
        cache.feed(ids(*tokens), at, 0)
        engine_rows[at:] = tokens
    text = data.draw(st.lists(st.integers(0, 2), max_size=14))
    agreed = cache.agreed(ids(*text))
    assert engine_rows[:agreed] == text[:agreed]
    assert agreed == min(len(text), len(engine_rows)) or engine_rows[agreed] != text[agreed]


def test_what_another_feed_wrote_serves_its_own_text_only() -> None:
    own, other = Recorder(), Recorder()
    cache = ModelCache(own, rows=10, max_width=3)
    text = ids(1, 2, 3, 4)
    cache.extend(text, 0)
    cache.begin()
    assert cache.agreed(text) == 4
    cache.extend(text, 0, rows=1, feed=other)
    assert other.calls == [([1, 2, 3], 0, 0), ([4], 3, 1)]
    assert len(own.calls) == 2
    assert cache.agreed(text) == 4
    cache.begin()
    assert cache.agreed(text) == 0
    cache.extend(text, 0)
    cache.begin()
    assert cache.agreed(text) == 4
