"""Whatever was rejected, skipped or switched: the drafter's laws are those of a cache filled from scratch."""

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.drafting.base import Draft
from specc_runtime.drafting.model import ModelDrafter
from specc_runtime.history import TokenHistory
from tests.support.table_programs import TablePrograms, table_engine, with_memory

V, GAMMA, MAX_WIDTH = 7, 5, 6
MODEL = with_memory(V, seed=5)
PARAMS = SamplingParams(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=1)
TEXT = [1, 4, 2, 0, 6, 3, 3, 5]


def new_drafter(params: SamplingParams = PARAMS) -> tuple[ModelDrafter, TablePrograms]:
    engine, programs = table_engine(MODEL, MODEL, vocabulary=V, max_width=MAX_WIDTH)
    drafter = engine._models.drafter("draft", params, GAMMA)
    assert isinstance(drafter, ModelDrafter)
    return drafter, programs


def propose(drafter: ModelDrafter, history: TokenHistory, gamma: int = GAMMA) -> Draft:
    uniforms = np.random.default_rng(len(history)).random(gamma)
    draft = drafter.propose(history, gamma, uniforms)
    return Draft(draft.ids.copy(), None if draft.laws is None else draft.laws.copy())


def assert_as_from_scratch(drafter: ModelDrafter, history: TokenHistory) -> None:
    draft, scratch = propose(drafter, history), propose(new_drafter()[0], history)
    np.testing.assert_array_equal(draft.ids, scratch.ids)
    assert draft.laws is not None
    np.testing.assert_array_equal(draft.laws, scratch.laws)


@pytest.mark.parametrize("accepted", range(GAMMA + 1))
def test_after_any_rejection_and_after_full_acceptance(accepted: int) -> None:
    drafter, _ = new_drafter()
    history = TokenHistory(TEXT, V)
    for _ in range(3):
        draft = propose(drafter, history)
        replaced = (int(draft.ids[accepted]) + 1) % V if accepted < GAMMA else 2
        history.extend([*draft.ids[:accepted].tolist(), replaced])
        assert_as_from_scratch(drafter, history)


@pytest.mark.parametrize("width", range(2 * MAX_WIDTH + 3))
def test_holes_of_any_width_are_refilled(width: int) -> None:
    drafter, programs = new_drafter()
    history = TokenHistory(TEXT, V)
    propose(drafter, history)
    history.extend([(3 * i) % V for i in range(width)])
    programs.calls.clear()
    assert_as_from_scratch(drafter, history)
    refilled = sum(fed for _, fed, _ in programs.calls) - 2 - (GAMMA - 1)
    assert refilled <= max(0, width - 1), "rows that were right are fed again"


@pytest.mark.parametrize("gammas", [[1, 4, 2], [5, 1, 5], [2, 2, 2]])
def test_drafts_of_changing_length(gammas: list[int]) -> None:
    drafter, _ = new_drafter()
    history = TokenHistory(TEXT, V)
    for gamma in gammas:
        draft = propose(drafter, history, gamma)
        history.extend([*draft.ids.tolist(), 4])
        assert_as_from_scratch(drafter, history)


def test_another_text_in_between() -> None:
    drafter, _ = new_drafter()
    propose(drafter, TokenHistory(TEXT, V))
    propose(drafter, TokenHistory([1, 4, 2, 5, 5], V))
    assert_as_from_scratch(drafter, TokenHistory(TEXT, V))


def test_the_first_step_of_a_round_is_two_tokens_wide_and_the_last_draft_is_not_fed() -> None:
    drafter, programs = new_drafter()
    history = TokenHistory(TEXT[:2], V)
    propose(drafter, history, 3)
    assert programs.calls == [("draft", 2, 0), ("draft", 1, 2), ("draft", 1, 3)]


def test_drafts_are_drawn_from_the_laws_that_are_returned() -> None:
    drafter, _ = new_drafter()
    draft = propose(drafter, TokenHistory(TEXT, V))
    assert draft.laws is not None
    np.testing.assert_allclose(draft.laws.sum(axis=1), 1, rtol=0, atol=1e-6)
    assert (draft.laws[np.arange(GAMMA), draft.ids] > 0).all()
    assert (draft.laws == 0).any(), "top_p 0.95 cuts nothing here: choose another model"


def test_a_greedy_draft_is_certain() -> None:
    drafter, _ = new_drafter(SamplingParams())
    draft = propose(drafter, TokenHistory(TEXT, V))
    assert draft.laws is None
    expected = list(TEXT)
    for token in draft.ids.tolist():
        assert token == MODEL(np.array(expected)).argmax()
        expected.append(token)


def test_the_limit_is_the_drafters_context() -> None:
    engine: Engine = table_engine(MODEL, MODEL, vocabulary=V, drafter_context=10, slack=0)[0]
    drafter = engine._models.drafter("draft", PARAMS, GAMMA)
    assert [drafter.limit(committed) for committed in (2, 8, 9, 10, 11, 12)] == [9, 3, 2, 1, 0, 0]
    drafter.propose(TokenHistory([1] * 8, V), 3, np.zeros(3))
