from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from specc_runtime.accept import Accepted, Law, accept_block, accept_greedy, accept_tokenwise, draw
from specc_runtime.mass import BLOCK

LAST = 1 - 2.0**-24
RULES = [accept_block, accept_tokenwise]
Rule = Callable[..., Accepted]
Round = tuple[list[int], Law, Law, NDArray[np.float64]]


def random_laws(rng: np.random.Generator, rows: int, vocabulary: int, dtype: type = np.float32) -> Law:
    """Laws `[rows, vocabulary]` over six orders of magnitude, about a third of the entries zero."""
    weights = np.exp(rng.uniform(-14, 0, (rows, vocabulary))) * (rng.random((rows, vocabulary)) < 0.7)
    weights[np.arange(rows), rng.integers(vocabulary, size=rows)] += 0.1
    return np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True), dtype=dtype)


sizes = st.sampled_from([1, 2, 3, 17, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1000])
uniform = st.one_of(st.sampled_from([0.0, 0.5, LAST]), st.integers(0, 2**24 - 1).map(lambda bits: bits * 2.0**-24))


@given(seed=st.integers(0, 10_000), size=sizes, u=uniform)
def test_draw_inverts_the_running_sum(seed: int, size: int, u: float) -> None:
    weights = random_laws(np.random.default_rng(seed), 1, size, np.float64)[0]
    index = draw(weights, u)
    running = np.cumsum(weights)
    assert weights[index] > 0
    assert running[index] - weights[index] - 1e-12 <= u * running[-1] <= running[index] + 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [5, BLOCK, BLOCK + 5, 4 * BLOCK])
@pytest.mark.parametrize("u", [0.0, 0.5, LAST, float(np.nextafter(1, 0))])
def test_draw_finds_a_lone_token_among_zeros(dtype: type, size: int, u: float) -> None:
    for index in {0, size // 2, size - 1}:
        weights = np.zeros(size, dtype=dtype)
        weights[index] = 1e-30
        assert draw(weights, u) == index


def test_draw_never_leaves_the_support_at_the_last_uniform() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        weights = rng.random(3 * BLOCK).astype(np.float32)
        weights[rng.integers(1, len(weights)) :] = 0
        assert weights[draw(weights, LAST)] > 0


def test_draw_needs_no_normalised_weights() -> None:
    weights = np.array([1.0, 0.0, 3.0])
    assert [draw(weights * 1e3, u) for u in (0.0, 0.249, 0.25, 0.9)] == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("drafted", "argmax_ids", "expected"),
    [
        ([], [7], (0, 7)),
        ([1, 2], [1, 2, 3], (2, 3)),
        ([1, 2], [1, 5, 3], (1, 5)),
        ([1, 2], [4, 2, 3], (0, 4)),
        ([1, 1], [2, 1, 1], (0, 2)),
    ],
)
def test_greedy_accepts_while_equal(drafted: list[int], argmax_ids: list[int], expected: tuple[int, int]) -> None:
    assert accept_greedy(drafted, argmax_ids) == expected
    assert accept_greedy(np.array(drafted, dtype=np.int64), np.array(argmax_ids)) == expected


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_draft_is_plain_decoding(rule: Rule) -> None:
    p = random_laws(np.random.default_rng(0), 1, 50)
    for u in (0.0, 0.3, LAST):
        assert rule([], p, None, np.array([u])) == Accepted(0, draw(p[0], u))


@pytest.mark.parametrize("rule", RULES)
def test_equal_laws_accept_everything(rule: Rule) -> None:
    p = random_laws(np.random.default_rng(1), 5, 400)
    drafted = [draw(law, 0.4) for law in p[:4]]
    assert rule(drafted, p, p[:4].copy(), np.array([LAST] * 4 + [0.2])) == Accepted(4, draw(p[4], 0.2))


@pytest.mark.parametrize("rule", RULES)
def test_a_residual_lost_to_rounding_falls_back_to_p(rule: Rule) -> None:
    """q at least p everywhere, as rounding can leave it: the token is rejected, and nothing remains to draw from."""
    p = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    q = np.array([[0.5000001, 0.5000001, 0.0]])
    assert rule([1], p, q, np.array([float(np.nextafter(1, 0)), 0.7])) == Accepted(0, 1)


def test_a_later_pass_saves_an_earlier_failure() -> None:
    """Block verification looks at the longest prefix first: u_1 fails alone, u_2 carries the block."""
    p = np.array([[0.5, 0.5], [0.9, 0.1], [0.5, 0.5]])
    q = np.array([[0.9, 0.1], [0.5, 0.5]])
    u = np.array([LAST, 0.1, 0.0])
    assert accept_block([0, 0], p, q, u).count == 2
    assert accept_tokenwise([0, 0], p, q, u).count == 0


@st.composite
def rounds(draw_value: st.DrawFn) -> Round:
    """Drafted tokens, p, q and u of one round, single precision, q sampled from as a drafter would."""
    rng = np.random.default_rng(draw_value(st.integers(0, 10_000)))
    gamma, size = draw_value(st.integers(0, 4)), draw_value(sizes)
    p, q = random_laws(rng, gamma + 1, size), random_laws(rng, gamma, size)
    if gamma and draw_value(st.booleans()):
        q[0] = p[0]
    drafted = [draw(law, draw_value(uniform)) for law in q]
    return drafted, p, q, np.array([draw_value(uniform) for _ in range(gamma + 1)])


@settings(max_examples=200)
@given(round_=rounds(), rule=st.sampled_from(RULES))
def test_nothing_leaves_the_verifiers_support(round_: Round, rule: Rule) -> None:
    drafted, p, q, u = round_
    count, token = rule(drafted, p, q, u)
    assert 0 <= count <= len(drafted)
    emitted = [*drafted[:count], token]
    assert all(p[i, x] > 0 for i, x in enumerate(emitted))


@settings(max_examples=200)
@given(round_=rounds(), rule=st.sampled_from(RULES))
def test_scratch_changes_nothing(round_: Round, rule: Rule) -> None:
    drafted, p, q, u = round_
    scratch = np.full(p.shape[1], np.nan, dtype=p.dtype)
    assert rule(drafted, p, q, u, scratch=scratch) == rule(drafted, p, q, u)


@settings(max_examples=200)
@given(round_=rounds(), rule=st.sampled_from(RULES))
def test_one_hot_drafts_equal_their_dense_form(round_: Round, rule: Rule) -> None:
    drafted, p, _, u = round_
    one_hot = np.zeros((len(drafted), p.shape[1]), dtype=p.dtype)
    one_hot[np.arange(len(drafted)), drafted] = 1
    assert rule(drafted, p, None, u) == rule(drafted, p, one_hot, u)


@settings(max_examples=200)
@given(round_=rounds(), rule=st.sampled_from(RULES), seed=st.integers(0, 1000))
def test_a_trimmed_head_equals_its_dense_form(round_: Round, rule: Rule, seed: int) -> None:
    drafted, p, q, u = round_
    others = np.random.default_rng(seed).random(p.shape[1]) < 0.5
    others[drafted] = True
    ids = np.flatnonzero(others)
    trimmed = np.ascontiguousarray(q[:, ids])
    dense = np.zeros_like(q)
    dense[:, ids] = trimmed
    assert rule(drafted, p, (ids, trimmed), u) == rule(drafted, p, dense, u)


@settings(max_examples=100)
@given(round_=rounds(), rule=st.sampled_from(RULES))
def test_a_narrower_dense_q_is_zero_in_the_columns_it_lacks(round_: Round, rule: Rule) -> None:
    drafted, p, q, u = round_
    wider = np.concatenate([p, np.full((len(p), 5), 0.01, dtype=p.dtype)], axis=1)
    padded = np.concatenate([q, np.zeros((len(q), 5), dtype=q.dtype)], axis=1)
    assert rule(drafted, wider, q, u) == rule(drafted, wider, padded, u)
