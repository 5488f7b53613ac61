from pathlib import Path

import numpy as np
import pytest

from specc.check.favourites import favourites
from specc.check.subject import Subject
from specc.options import DraftVocabulary
from specc_runtime import SamplingParams
from specc_runtime.bundle import open_bundle
from specc_runtime.drafting.base import Draft
from specc_runtime.history import TokenHistory
from tests.support.speculators import layer_config, speculator_config, speculator_weights, write_speculator
from tests.support.tiny_models import TOKENS, TinyBundles

PROMPT, TEXT = np.array([50, 60, 7, 8]), np.array([9, 200, 50, 60])


@pytest.fixture(scope="module")
def reading_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drafter that reads the verifier's features."""
    weights = speculator_weights(layer_config(), seed=1, fc_norm=True)
    config = speculator_config(layer_config(), head_rows=6, feature_layers=(0, 1, 3), fc_norm=True)
    return write_speculator(tmp_path_factory.mktemp("d"), config, weights, np.array([3, 7, 50, 60, 200, 299]))


def drafted(subject: Subject, text: list[int]) -> Draft:
    """One token after `text`, as a round of its own drafts it."""
    models = subject.engine()._models
    models.verifier.extend(np.array(text[:-1]), 0)
    drafter = models.drafter("drafter", SamplingParams(temperature=1.0), 1)
    return drafter.propose(TokenHistory(text, TOKENS), 1, np.zeros(1))


@pytest.mark.parametrize("kind", ["slice", "trimmed", "features"])
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1]], ids=["prompt", "one token"])
def test_laws_are_those_a_round_would_draft_from(
    kind: str, prompt: np.ndarray, tiny: TinyBundles, reading_features: Path
) -> None:
    asked = {
        "slice": {},
        "trimmed": {"draft_vocabulary": DraftVocabulary(count=100)},
        "features": {"draft": str(reading_features)},
    }
    subject = Subject.load(open_bundle(tiny.bundle(**asked[kind])))
    subject.programs.verify(prompt, 0, 0)
    favoured = favourites(subject, "drafter", prompt, len(TEXT) + 1)
    assert favoured is not None
    for _ in range(2):  # one text leaves nothing behind for the next
        subject.programs.verify(TEXT, len(prompt), 0)
        laws = favoured.laws(TEXT, TOKENS)
    for row in range(len(TEXT)):
        draft = drafted(subject, [*prompt, *TEXT[: row + 1]])
        assert draft.laws is not None
        ids = np.arange(TOKENS) if draft.law_ids is None else draft.law_ids
        expected = np.zeros(TOKENS)
        expected[ids] = draft.laws[0]
        np.testing.assert_allclose(laws[row], expected, rtol=0, atol=1e-5)


def test_an_ngram_drafter_favours_what_it_would_draft(tiny: TinyBundles) -> None:
    favoured = favourites(Subject.load(open_bundle(tiny.bundle(draft="ngram"))), "ngram", PROMPT, 5)
    assert favoured is not None
    laws = favoured.laws(TEXT, TOKENS)
    assert laws.sum(axis=1).tolist() == [0, 0, 1, 1]
    assert (laws[2, 60], laws[3, 7]) == (1, 1)


def test_a_drafter_that_does_not_reach_has_none(tiny: TinyBundles) -> None:
    short = tiny.model(num_hidden_layers=1, max_position_embeddings=20)
    subject = Subject.load(open_bundle(tiny.bundle(draft=str(short))))
    assert favourites(subject, "drafter", PROMPT, 17) is None
    assert favourites(subject, "drafter", PROMPT, 16) is not None
