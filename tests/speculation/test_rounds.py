from time import perf_counter

import numpy as np
import pytest

from specc.speculation.rounds import round_seconds, rounds_of, timed_rounds
from specc_runtime import Engine, SamplingParams
from specc_runtime.stats import RoundRecord
from tests.support.table_programs import blend, table_engine, with_memory

V = 11
VERIFIER = with_memory(V, seed=0)
DRAFTER = blend(VERIFIER, with_memory(V, seed=1), 0.6)
PROMPT = np.array([1, 2, 3, 1, 2])


@pytest.fixture
def engine() -> Engine:
    return table_engine(VERIFIER, DRAFTER, vocabulary=V, context=256)[0]


def test_every_round_is_given_once(engine: Engine) -> None:
    generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=40), gamma=3)
    records = list(rounds_of(generation))
    assert len(records) == generation.stats.rounds
    assert sum(r.emitted for r in records) == 40


def test_after_the_deadline_the_generation_is_closed(engine: Engine) -> None:
    generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=40), gamma=3)
    assert len(list(rounds_of(generation, deadline=perf_counter()))) == 1
    assert engine.generate(PROMPT, SamplingParams(max_new_tokens=3)).finish().ids, "the engine is free again"


@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_every_length_is_timed(engine: Engine, drafter: str) -> None:
    records = timed_rounds(engine, drafter, [PROMPT, PROMPT[1:]], longest=4, seconds=60)
    drafted = [r.drafted for r in records if r.verify_s]
    assert {drafted.count(length) >= 5 for length in range(5)} == {True}


def record(drafted: int, seconds: float, **more: object) -> RoundRecord:
    return RoundRecord(drafted, 0, 1, verify_s=seconds, **more)


def test_a_length_takes_its_median() -> None:
    records = [record(drafted, seconds) for drafted in (0, 1) for seconds in (1.0 + drafted, 1.1 + drafted, 9.0)]
    assert round_seconds(records, 1) == pytest.approx((1.1, 2.1), rel=1e-12)


def test_rounds_that_prefill_do_not_count() -> None:
    records = [record(0, 1.0), record(0, 50.0, prefilled=3), RoundRecord(0, 0, 1, prefill_s=50.0), record(1, 2.0)]
    assert round_seconds(records, 1) == pytest.approx((1.0, 2.0), rel=1e-12)


def test_lengths_without_rounds_follow_the_others() -> None:
    records = [record(drafted, 1.0 + 0.5 * drafted) for drafted in (0, 2) for _ in range(3)]
    assert round_seconds(records, 4) == pytest.approx((1.0, 1.5, 2.0, 2.5, 3.0), rel=1e-12)


def test_without_a_plain_step_nothing_is_known() -> None:
    assert round_seconds([record(1, 1.0)] * 3, 1) is None
