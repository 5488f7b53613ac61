from dataclasses import replace

import numpy as np
import pytest

from specc.speculation.measuring import acceptance, chosen_gamma, measure_drafter
from specc_runtime.manifest import Speculation
from specc_runtime.stats import RoundRecord
from tests.support.manifests import small_manifest
from tests.support.table_programs import markov, table_engine

V = 11
NEXT = markov(np.roll(np.eye(V), 1, axis=1))  # token i is followed by i + 1
NEVER = markov(np.roll(np.eye(V), 2, axis=1))
PROMPTS = [np.array([start, start + 1, start + 2]) for start in range(6)]


def test_drafts_of_one_length_give_shares_of_drafts() -> None:
    drafts = [RoundRecord(3, accepted, accepted + 1) for accepted in (3, 3, 2, 0)]
    assert acceptance(drafts, 3) == pytest.approx((3 / 4, 3 / 4, 2 / 4), rel=1e-12)


def test_a_short_draft_counts_as_far_as_it_went() -> None:
    drafts = [RoundRecord(2, 2, 3), RoundRecord(2, 1, 2), RoundRecord(2, 0, 1), RoundRecord(1, 1, 2)]
    assert acceptance(drafts, 2) == pytest.approx((3 / 4, 3 / 4 * 1 / 2), rel=1e-12)


def test_where_no_draft_came_nothing_is_claimed() -> None:
    assert acceptance([RoundRecord(1, 1, 2)], 3) == (1.0, 0.0, 0.0)
    assert acceptance([], 2) == (0.0, 0.0)


@pytest.mark.parametrize(("drafter", "accepted"), [(NEXT, 1.0), (NEVER, 0.0)], ids=["always right", "never right"])
def test_a_model_drafter(drafter: object, accepted: float) -> None:
    engine, _ = table_engine(NEXT, drafter, vocabulary=V, context=256)
    measured = measure_drafter(engine, "draft", PROMPTS)
    assert measured is not None
    assert measured.acceptance == (accepted,) * 4
    assert measured.draft_rate == pytest.approx(1, abs=0.1)  # the last token of a request is a plain step
    assert len(measured.round_s) == 5
    assert measured.tokens == 6 * 64
    assert measured.refill_s > 0


def test_lookup_drafts_once_the_text_repeats() -> None:
    engine, _ = table_engine(NEXT, vocabulary=V, context=256)
    measured = measure_drafter(engine, "ngram", PROMPTS)
    assert measured is not None
    assert measured.acceptance == (1.0,) * 4
    assert 0 < measured.draft_rate < 1
    assert measured.refill_s == 0


def test_a_context_without_room_leaves_the_drafter_unmeasured() -> None:
    engine, _ = table_engine(NEXT, NEXT, vocabulary=V, context=3)
    assert measure_drafter(engine, "draft", PROMPTS) is None


@pytest.mark.parametrize(
    ("acceptance", "gamma"),
    [((0.9, 0.8, 0.7, 0.6), 4), ((0.9, 0.8, 0.1, 0.0), 2), ((0.1, 0.0, 0.0, 0.0), 0), ((0.9, 0.0, 0.0, 0.0), 2)],
)
def test_the_default_is_the_best_of_the_bundles_gammas(acceptance: tuple[float, ...], gamma: int) -> None:
    measured = Speculation((1.0, 1.2, 1.4, 1.6, 1.8), 0.0, acceptance, draft_rate=1.0, tokens=9)
    assert chosen_gamma(replace(small_manifest(), gamma=4), measured) == gamma


def test_without_a_measurement_the_default_stays() -> None:
    assert chosen_gamma(small_manifest(), None) == small_manifest().gamma
