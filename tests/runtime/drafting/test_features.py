"""Whatever happened before, a feature drafter's laws are those of caches filled from scratch with true features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime import Engine, SamplingParams
from specc_runtime.drafting.base import Draft, Drafter
from specc_runtime.drafting.features import FeatureDrafter
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.drafting.none import NoDrafter
from specc_runtime.history import TokenHistory
from tests.support.feature_tables import FeatureTablePrograms, reading_features
from tests.support.reference_law import chi_square_p, joint_law, sampled
from tests.support.switching import SwitchingDrafter
from tests.support.table_programs import TablePrograms, table_engine, with_memory

V, GAMMA, MAX_WIDTH = 7, 5, 6
VERIFIER, DRAFTER = with_memory(V, seed=5), reading_features(V, seed=6)
GREEDY = SamplingParams(max_new_tokens=40)
SAMPLED = SamplingParams(max_new_tokens=40, temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=1)
TEXT = [1, 4, 2, 0, 6, 3, 3, 5]


def new_engine(**options: Any) -> tuple[Engine, TablePrograms]:
    given = {"vocabulary": V, "max_width": MAX_WIDTH, "programs": FeatureTablePrograms, "features": True} | options
    return table_engine(VERIFIER, DRAFTER, **given)  # type: ignore[arg-type]


def feature_drafter(engine: Engine, params: SamplingParams, gamma: int = GAMMA) -> FeatureDrafter:
    drafter = engine._models.drafter("draft", params, gamma)
    assert isinstance(drafter, FeatureDrafter)
    return drafter


def from_scratch(history: TokenHistory, params: SamplingParams, uniforms: NDArray[np.float64]) -> Draft:
    engine, _ = new_engine()
    engine._models.verifier.extend(history.ids[:-1], 0)
    return feature_drafter(engine, params).propose(history, len(uniforms), uniforms)


class Audited:
    """A drafter whose every draft must be the one made from scratch."""

    def __init__(self, drafter: FeatureDrafter, params: SamplingParams) -> None:
        self.drafts = 0
        self._drafter, self._params = drafter, params

    def limit(self, committed: int) -> int:
        return self._drafter.limit(committed)

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        draft = self._drafter.propose(history, gamma, uniforms)
        expected = from_scratch(history, self._params, uniforms)
        np.testing.assert_array_equal(draft.ids, expected.ids)
        if draft.laws is not None:
            np.testing.assert_array_equal(draft.laws, expected.laws)
        self.drafts += 1
        return draft


def audited(engine: Engine, params: SamplingParams) -> Audited:
    return Audited(feature_drafter(engine, params), params)


class Cycle:
    """A controller that never chooses the same gamma twice in a row; 0 is a plain step."""

    chosen = -1

    def choose(self, stats: object) -> int:
        self.chosen += 1
        return (self.chosen * 3) % (GAMMA + 1)


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("gamma", [*range(1, GAMMA + 1), "changing"])
def test_round_by_round(params: SamplingParams, gamma: int | str) -> None:
    engine, _ = new_engine()
    drafter = audited(engine, params)
    chosen = Cycle() if isinstance(gamma, str) else gamma
    generation = engine.generate(TEXT, params, drafter=drafter, gamma=chosen).finish()
    accepted = generation.stats.spec_decode_num_accepted_tokens_per_pos
    assert drafter.drafts > 5
    assert 0 < accepted[0] < generation.stats.spec_decode_num_drafts


@pytest.mark.parametrize("others", [[NgramDrafter()], [NoDrafter(), NoDrafter()], [NgramDrafter(), NoDrafter()] * 5])
def test_after_rounds_of_other_drafters_and_plain_steps(others: Sequence[Drafter]) -> None:
    engine, _ = new_engine()
    drafter = audited(engine, SAMPLED)
    engine.generate(TEXT, SAMPLED, drafter=SwitchingDrafter([drafter, *others]), gamma=4).finish()
    assert drafter.drafts > 1


@pytest.mark.parametrize("every", [1, 3, 7])
def test_full_verification_renews_features_and_rows(every: int) -> None:
    engine, _ = new_engine()
    params = SamplingParams(max_new_tokens=40, temperature=0.9, seed=3, verify_every=every)
    drafter = audited(engine, params)
    generation = engine.generate(TEXT, params, drafter=drafter, gamma=4).finish()
    assert drafter.drafts > 3 or every == 1
    assert generation.stats.full_verifications > 3


@pytest.mark.parametrize(
    "second",
    [TEXT, [*TEXT, 2, 2, 1], TEXT[:3], [0, *TEXT[1:]], [*TEXT[:4], 0, *TEXT[5:]], [1, 4]],
    ids=["same", "longer", "shorter", "first token differs", "one in the middle differs", "two tokens"],
)
def test_another_request_on_the_same_caches(second: list[int]) -> None:
    engine, programs = new_engine()
    first = engine.generate(TEXT, SAMPLED, gamma=4).finish()
    for prompt in (second, TEXT + first.ids[:5]):
        drafter = audited(engine, SAMPLED)
        programs.calls.clear()
        engine.generate(prompt, SAMPLED, drafter=drafter, gamma=4).finish()
        assert drafter.drafts > 3


def test_a_second_turn_feeds_the_drafter_only_what_is_new() -> None:
    engine, programs = new_engine()
    params = SamplingParams(max_new_tokens=12, temperature=0.9, seed=1)
    first = engine.generate(TEXT, params, gamma=3).finish()
    programs.calls.clear()
    engine.generate([*TEXT, *first.ids, 2, 2], params, gamma=3).finish()
    known = len(TEXT) + len(first.ids)
    assert min(position for owner, _, position in programs.calls if owner == "draft") >= known - 1 - 4


@pytest.mark.parametrize("failing", ["verifier", "draft"])
@pytest.mark.parametrize("at", range(4, 14))
def test_after_an_engine_that_failed_in_the_middle_of_a_round(failing: str, at: int) -> None:
    engine, programs = new_engine()
    whole = engine.generate(TEXT, SAMPLED, gamma=4).finish().ids
    programs.fails = (failing, at)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="engine"):
        engine.generate(TEXT, SAMPLED, gamma=4).finish()
    for follow_up in (TEXT, TEXT + whole[:6], TEXT + whole[:20]):
        drafter = audited(engine, SAMPLED)
        engine.generate(follow_up, SAMPLED, drafter=drafter, gamma=4).finish()
        assert drafter.drafts > 1


@pytest.mark.parametrize("steps", range(1, GAMMA))
def test_after_a_draft_that_failed_over_rows_which_the_verifier_had_rejected(steps: int) -> None:
    """The verifier's cache still holds the rejected tokens, but their features are the drafter's own by then."""
    engine, programs = new_engine()
    generation = engine.generate(TEXT, SAMPLED, gamma=GAMMA)
    next(generation)
    generation.close()
    rejected = [6, 2, 2, 5, 0]
    engine._models.verifier.feed(np.array([TEXT[-1], *rejected]), len(TEXT) - 1, 0)
    programs.fails = ("draft", steps)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="engine"):
        feature_drafter(engine, SAMPLED).propose(TokenHistory(TEXT, V), GAMMA, np.full(GAMMA, 0.5))
    drafter = audited(engine, SAMPLED)
    engine.generate([*TEXT, *rejected, 1], SAMPLED, drafter=drafter, gamma=GAMMA).finish()
    assert drafter.drafts > 1


def test_the_first_step_feeds_what_the_last_round_committed_and_the_others_one_row() -> None:
    engine, programs = new_engine()
    engine._models.verifier.extend(np.array(TEXT), 0)
    drafter, history = feature_drafter(engine, GREEDY), TokenHistory([*TEXT, 2], V)
    drafter.propose(history, 3, np.zeros(3))
    assert programs.calls[2:] == [("draft", 6, 0), ("draft", 1, 6), ("draft", 1, 7), ("draft", 1, 8), ("draft", 1, 9)]
    history.extend([3, 1, 2])
    programs.calls.clear()
    engine._models.verifier.feed(np.array([2, 3, 1, 6]), 8, 4)
    drafter.propose(history, 2, np.zeros(2))
    assert programs.calls[1:] == [("draft", 3, 8), ("draft", 1, 11)]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("gamma", range(1, GAMMA + 1))
def test_steps_after_in_graph_rounds_and_rounds_after_steps(gamma: int, temperature: float) -> None:
    engine, programs = new_engine(rounds=[gamma])
    params = SamplingParams(max_new_tokens=9, temperature=temperature, seed=2)
    text = list(TEXT)
    for _ in range(3):
        programs.calls.clear()
        text += engine.generate(text, params, gamma=gamma).finish().ids
        assert any(width == gamma + 1 for owner, width, _ in programs.calls if owner == "draft")
        drafter = audited(engine, params)
        text += engine.generate(text, params, drafter=drafter, gamma=2).finish().ids
        assert drafter.drafts > 1


def test_a_round_feeds_as_many_rows_as_it_drafts_and_one() -> None:
    engine, programs = new_engine(rounds=[3])
    generation = engine.generate([1, 4], SamplingParams(max_new_tokens=30), gamma=3)
    widths = []
    for _ in generation:
        widths += [width for owner, width, _ in programs.calls if owner == "draft" and width > 1]
        programs.calls.clear()
    assert widths[0] == 2, "too short a text for a round: its rows come step by step"
    assert widths[-1] == 4
    assert set(widths[3:]) == {4}


@pytest.mark.parametrize("rounds", [(), range(1, GAMMA + 1)], ids=["chained", "fused"])
@pytest.mark.parametrize("slack", [0, 8])
@pytest.mark.parametrize("gamma", range(1, GAMMA + 1))
def test_speculative_is_plain_to_the_last_position(gamma: int, slack: int, rounds: Sequence[int]) -> None:
    engine, _ = new_engine(context=48, slack=slack, rounds=rounds)
    params = SamplingParams(max_new_tokens=100)
    plain = list(engine.generate(TEXT, params, plain=True))
    assert list(engine.generate(TEXT, params, gamma=gamma)) == plain
    assert len(TEXT) + len(plain) == 48


def test_a_drafter_of_a_shorter_context_stops_drafting() -> None:
    engine, _ = new_engine(context=48, drafter_context=20)
    params = SamplingParams(max_new_tokens=100)
    assert list(engine.generate(TEXT, params, gamma=4)) == list(engine.generate(TEXT, params, plain=True))


@pytest.mark.parametrize(
    ("setting", "rounds"),
    [({}, ()), ({}, (1, 2, 3)), ({"repetition_penalty": 1.5}, ()), ({"top_k": 3, "acceptance": "token"}, ())],
    ids=str,
)
def test_sampled_texts_follow_the_verifiers_law(setting: dict[str, Any], rounds: Sequence[int]) -> None:
    engine, length = new_engine(rounds=rounds)[0], 3
    law = joint_law(VERIFIER, SamplingParams(temperature=1.0, **setting), TEXT, V, length)

    def text(seed: int) -> list[int]:
        params = SamplingParams(max_new_tokens=length + 5, temperature=1.0, seed=seed, **setting)
        return engine.generate(TEXT, params, gamma=3).finish().ids[:length]

    assert chi_square_p(sampled(text, 1500), law) > 1e-3
