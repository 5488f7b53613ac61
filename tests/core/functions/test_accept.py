import itertools
from functools import cache

import numpy as np
import pytest

from specc.core.building import Body, model, value
from specc.core.functions.accept import ACCEPTANCES, accept_functions
from specc.core.functions.sampling import one_hot
from specc_runtime.accept import accept_block, accept_greedy, accept_tokenwise
from tests.support.enumeration import VOCABULARY, Pair, joint_law, random_pair, sequence_law
from tests.support.function_models import ENGINES, F32, I64, graph_of, runner
from tests.support.graph_enumeration import GRID, GraphRule, Ints, Laws, Outcome, Steps, outcomes

TOLERANCE = 1e-6  # float32 laws, and uniforms on a grid of 2^-24
GAMMAS = (1, 2, 3)
PAIRS = {1: 12, 2: 8, 3: 3}
HOST = {"block": accept_block, "tokenwise": accept_tokenwise}


@cache
def graph_rule(acceptance: str, gamma: int, engine: str, limit: int | None = None) -> GraphRule:
    inputs = {
        "drafted": (I64, ["B", gamma]),
        "p": (F32, ["B", gamma + 1, "V"]),
        "q": (F32, ["B", gamma, "V"]),
        "u": (F32, ["B", gamma + 1]),
    }
    limited = limit is not None
    if limited:
        inputs["limit"] = (I64, ["B"])
    function, functions = ACCEPTANCES[acceptance](gamma, limited), accept_functions(acceptance, gamma, limited)
    run = runner(graph_of(function, inputs, {"ids": I64, "count": I64}, functions), engine)

    def rule(drafted: Ints, p: Laws, q: Laws, u: Laws) -> tuple[Ints, Ints]:
        more = {} if limit is None else {"limit": np.full(len(u), limit)}
        made = run({"drafted": drafted, "p": p, "q": q, "u": u, **more})
        return made["ids"], made["count"]

    return rule


def one_hot_rule(acceptance: str, gamma: int, engine: str) -> GraphRule:
    """Acceptance of drafts that nobody drew: their one-hot laws are made in the graph, and `q` is not read."""
    body = Body()
    drafted, p = value("drafted", ["B", gamma], I64), value("p", ["B", gamma + 1, "V"], F32)
    u = value("u", ["B", gamma + 1], F32)
    (q,) = body.call(one_hot(), drafted, body.op("Shape", p, start=-1))
    ids, count = body.call(ACCEPTANCES[acceptance](gamma), drafted, p, q, u)
    ids.name, count.name, ids.dtype, count.dtype = "ids", "count", I64, I64
    functions = [one_hot(), *accept_functions(acceptance, gamma)]
    run = runner(model("one_hot", [drafted, p, u], [ids, count], body, functions=functions), engine)

    def rule(drafted: Ints, p: Laws, q: Laws, u: Laws) -> tuple[Ints, Ints]:
        made = run({"drafted": drafted, "p": p, "u": u})
        return made["ids"], made["count"]

    return rule


def pairs(gamma: int, seeds: range) -> list[Pair]:
    return [random_pair(np.random.default_rng([gamma, seed]), gamma) for seed in seeds]


def error(pair: Pair, found: list[Outcome]) -> float:
    joint = joint_law(pair, found)
    return max(abs(joint.get(tokens, 0) - mass) for tokens, mass in sequence_law(pair.verifier, (), pair.gamma + 1))


def expected_count(found: list[Outcome]) -> float:
    return sum(mass * share * accepted.count for _, mass, law in found for accepted, share in law.items())


def check_pairs(cases: list[Pair], engine: str) -> float:
    """Both rules give each pair's law, block accepting no less; how much more it accepts, over all pairs."""
    gained = 0.0
    block, token = (outcomes(graph_rule(name, cases[0].gamma, engine), cases) for name in ("block", "tokenwise"))
    for pair, by_block, by_token in zip(cases, block, token, strict=True):
        assert error(pair, by_block) <= TOLERANCE
        assert error(pair, by_token) <= TOLERANCE
        assert expected_count(by_block) >= expected_count(by_token) - TOLERANCE
        gained += expected_count(by_block) - expected_count(by_token)
    return gained


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_joint_law_and_block_never_accepts_less(engine: str, gamma: int) -> None:
    gained = check_pairs(pairs(gamma, range(PAIRS[gamma])), engine)
    assert gained > 0.01 if gamma > 1 else abs(gained) < TOLERANCE * PAIRS[gamma]


@pytest.mark.slow
@pytest.mark.parametrize("gamma", GAMMAS)
def test_joint_law_of_many_more_pairs(gamma: int) -> None:
    for start in range(100, 160, 6):
        check_pairs(pairs(gamma, range(start, start + 6)), "ort")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acceptance", ACCEPTANCES)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_joint_law_of_one_hot_drafts(engine: str, acceptance: str, gamma: int) -> None:
    """Every fixed draft must give the verifier's law by itself: a greedy drafter or an n-gram always makes one."""
    pair = random_pair(np.random.default_rng([gamma, 5]), gamma)
    drafts = list(itertools.product(range(VOCABULARY), repeat=gamma))
    p = np.stack([pair.laws(drafted)[0] for drafted in drafts]).astype(np.float32)
    steps = Steps(one_hot_rule(acceptance, gamma, engine), drafts, p, np.zeros_like(p[:, 1:]))
    for number, drafted in enumerate(drafts):
        assert error(pair, [(drafted, 1.0, steps.law(number))]) <= TOLERANCE


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acceptance", ACCEPTANCES)
def test_the_steps_predict_the_graph_everywhere(engine: str, acceptance: str) -> None:
    """At random uniforms the graph does what the steps say: the structure that the enumeration assumes is real."""
    rng = np.random.default_rng(1)
    drafts = list(itertools.product(range(VOCABULARY), repeat=3))
    laws = rng.dirichlet([1.0] * VOCABULARY, (len(drafts), 7)).astype(np.float32)
    steps = Steps(graph_rule(acceptance, 3, engine), drafts, laws[:, :4], laws[:, 4:])
    rows, u = rng.integers(0, len(drafts), 300), rng.integers(0, GRID, (300, 4))
    counts, tokens = steps.run(rows, u)
    expected = [steps.outcome(row, point) for row, point in zip(rows, u, strict=True)]
    assert [(int(count), int(token)) for count, token in zip(counts, tokens, strict=True)] == expected
    assert set(counts) == {0, 1, 2, 3}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acceptance", ACCEPTANCES)
@pytest.mark.parametrize("size", [5, 1000])
def test_the_host_accepts_alike(engine: str, acceptance: str, size: int) -> None:
    """The same outcome as the runtime's own acceptance, and nothing but zeros after it."""
    rng, gamma, cases = np.random.default_rng(size), 4, 60
    q = rng.dirichlet([0.3] * size, (cases, gamma)).astype(np.float32)
    p = 0.7 * np.pad(q, ((0, 0), (0, 1), (0, 0))) + 0.3 * rng.dirichlet([0.3] * size, (cases, gamma + 1))
    p = (p / p.sum(axis=-1, keepdims=True)).astype(np.float32)
    drafted = np.array([[rng.choice(size, p=law / law.sum()) for law in laws.astype(np.float64)] for laws in q])
    u = (rng.integers(0, GRID, (cases, gamma + 1)) / GRID).astype(np.float32)
    ids, count = graph_rule(acceptance, gamma, engine)(drafted, p, q, u)
    for case in range(cases):
        expected = HOST[acceptance](drafted[case], p[case], q[case], u[case].astype(np.float64))
        emitted = [*drafted[case, : expected.count], expected.token]
        assert ids[case].tolist() == [*emitted, *[0] * (gamma - expected.count)]
        assert count[case] == len(emitted)
    assert len(set(count)) > 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acceptance", ACCEPTANCES)
@pytest.mark.parametrize("limit", range(5))
def test_a_limit_is_a_shorter_draft(engine: str, acceptance: str, limit: int) -> None:
    """To the token: what is enumerated for every gamma holds for every limit. The host's rule where none is left."""
    rng, gamma, size = np.random.default_rng(limit), 4, 5
    drafted = rng.integers(0, size, (300, gamma))
    p, q = (rng.dirichlet([0.5] * size, (300, rows)).astype(np.float32) for rows in (gamma + 1, gamma))
    q[:60] = np.eye(size, dtype=np.float32)[drafted[:60]]  # a greedy drafter's
    p[30:90] = np.eye(size, dtype=np.float32)[rng.integers(0, size, (60, gamma + 1))]  # a greedy request's
    u = (rng.integers(0, GRID, (300, gamma + 1)) / GRID).astype(np.float32)
    ids, count = graph_rule(acceptance, gamma, engine, limit)(drafted, p, q, u)
    short_u = np.column_stack([u[:, :limit], u[:, -1]])
    if limit:
        rule = graph_rule(acceptance, limit, engine)
        expected, length = rule(drafted[:, :limit], p[:, : limit + 1], q[:, :limit], short_u)
    else:
        tokens = [HOST[acceptance]([], p[case, :1], None, short_u[case]).token for case in range(300)]
        expected, length = np.array(tokens)[:, None], np.ones(300, np.int64)
    np.testing.assert_array_equal(count, length)
    np.testing.assert_array_equal(ids[:, : limit + 1], expected)
    assert not ids[:, limit + 1 :].any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acceptance", ACCEPTANCES)
def test_temperature_0_accepts_while_equal(engine: str, acceptance: str) -> None:
    """Every pattern of hits and misses, whatever the uniforms; greedy drafters and sampling ones."""
    gamma, rng = 3, np.random.default_rng(0)
    choices = np.array(list(itertools.product(range(2), repeat=2 * gamma + 1)))
    drafted, likeliest = choices[:, :gamma], choices[:, gamma:]
    p = np.eye(VOCABULARY, dtype=np.float32)[likeliest]
    rule = graph_rule(acceptance, gamma, engine)
    sampled = rng.dirichlet([1.0] * VOCABULARY, drafted.shape).astype(np.float32)
    for q in (np.eye(VOCABULARY, dtype=np.float32)[drafted], sampled):
        u = (rng.integers(0, GRID, (len(choices), gamma + 1)) / GRID).astype(np.float32)
        ids, count = rule(drafted, p, q, u)
        for case, (tokens, best) in enumerate(zip(drafted, likeliest, strict=True)):
            expected = accept_greedy(tokens, best)
            assert ids[case, : count[case]].tolist() == [*tokens[: expected.count], expected.token]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acceptance", ACCEPTANCES)
def test_equal_laws_accept_everything(engine: str, acceptance: str) -> None:
    """Nothing is left of p - q: no division by 0, and the last token is drawn from p."""
    p = np.tile(np.array([0.5, 0.5, 0.0], np.float32), (4, 3, 1))
    u = np.full((4, 3), 1 - 1 / GRID, np.float32)
    u[:, 2] = [0.0, 0.25, 0.5, 0.75]
    drafted = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
    ids, count = graph_rule(acceptance, 2, engine)(drafted, p, p[:, :2], u)
    assert count.tolist() == [3] * 4
    np.testing.assert_array_equal(ids, np.column_stack([drafted, [0, 0, 1, 1]]))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_residual_lost_to_rounding_is_drawn_from_p(engine: str) -> None:
    """A drafted token of no mass under q cannot come up; if it does, rejection must still emit a token that p has."""
    p = np.array([[[0.25, 0.75, 0.0]] * 2], np.float32)
    ids, count = graph_rule("tokenwise", 1, engine)(np.array([[2]]), p, p[:, :1], np.array([[0.5, 0.5]], np.float32))
    assert (ids.tolist(), count.tolist()) == ([[1, 0]], [1])


def stop_at_the_first_failure(drafted: Ints, p: Laws, q: Laws, u: Laws) -> tuple[Ints, Ints]:
    """Block verification's own thresholds, read from the left."""
    rule, gamma = graph_rule("block", q.shape[1], "ort"), q.shape[1]
    count = np.zeros(len(drafted), np.int64)
    for i in range(gamma):
        alone = np.full_like(u, 1 - 1 / GRID)
        alone[:, i] = u[:, i]
        count += (count == i) & (rule(drafted, p, q, alone)[1] - 1 > i)
    passing = np.where(np.arange(gamma) < count[:, None], 0, 1 - 1 / GRID)
    return rule(drafted, p, q, np.column_stack([passing, u[:, -1]]).astype(np.float32))


def test_the_enumeration_sees_a_wrong_rule() -> None:
    [pair] = pairs(2, range(1))
    [found] = outcomes(stop_at_the_first_failure, [pair])
    assert error(pair, found) > 1e-2
