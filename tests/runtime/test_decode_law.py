"""Sampled texts follow the verifier's own law, whatever drafts and however drafts are made."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.drafting.none import NoDrafter
from tests.support.reference_law import chi_square_p, joint_law, sampled
from tests.support.switching import SwitchingDrafter
from tests.support.table_programs import LogitsOf, blend, markov, table_engine, with_memory

V, LENGTH = 4, 4
PROMPT = [0, 2, 1, 2]
TABLE = np.random.default_rng(4).dirichlet(np.full(V, 0.8), size=V)
TABLE[2, 3] = 0.0
TABLE /= TABLE.sum(axis=1, keepdims=True)
MARKOV = markov(TABLE)
MARKOV_DRAFTER = markov(0.5 * TABLE + 0.5 * np.random.default_rng(5).dirichlet(np.ones(V), size=V))
MEMORY = with_memory(V, seed=2)
MEMORY_DRAFTER = blend(MEMORY, with_memory(V, seed=3), 0.5)

SETTINGS = {
    "T=1": {"temperature": 1.0},
    "T=.8, top_k": {"temperature": 0.8, "top_k": 2},
    "top_p": {"temperature": 1.0, "top_p": 0.7},
    "min_p": {"temperature": 1.3, "min_p": 0.3},
    "penalties": {"temperature": 1.0, "repetition_penalty": 1.6, "frequency_penalty": 0.8, "presence_penalty": 0.3},
}


def assert_law(
    engine: Engine, logits_of: LogitsOf, setting: dict[str, Any], *, sequences: int = 1500, **how: Any
) -> None:
    """Chi-square of the joint law of the first LENGTH tokens, p > 1e-3, and no text off its support.

    More tokens are asked for than are looked at: the end of a request cuts gamma.
    """

    def text(seed: int) -> list[int]:
        params = SamplingParams(max_new_tokens=LENGTH + 8, seed=seed, **setting)
        drafter = _switching(engine, params) if how.get("drafter") == "switching" else how.get("drafter")
        generation = engine.generate(PROMPT, params, **how | {"drafter": drafter})
        ids = list(islice(generation, LENGTH))
        generation.close()
        return ids

    law = joint_law(logits_of, SamplingParams(**setting), PROMPT, V, LENGTH)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert chi_square_p(sampled(text, sequences), law) > 1e-3


def _switching(engine: Engine, params: SamplingParams) -> SwitchingDrafter:
    model = engine._models.drafter("draft", params, 8)
    return SwitchingDrafter([model, NgramDrafter(), model, NoDrafter()])


def model_engine(drafter: LogitsOf = MARKOV_DRAFTER, verifier: LogitsOf = MARKOV) -> Engine:
    return table_engine(verifier, drafter, vocabulary=V, max_width=9)[0]


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("how", [{"gamma": 3}, {"drafter": "ngram", "gamma": 3}], ids=str)
def test_markov_law(setting: dict[str, Any], how: dict[str, Any]) -> None:
    assert_law(model_engine(), MARKOV, setting, **how)


def test_markov_law_of_plain_decoding() -> None:
    assert_law(model_engine(), MARKOV, SETTINGS["penalties"], plain=True)


@pytest.mark.parametrize("gamma", [1, 6])
def test_markov_law_tokenwise(gamma: int) -> None:
    assert_law(model_engine(), MARKOV, {"temperature": 1.0, "acceptance": "token"}, gamma=gamma)


@pytest.mark.parametrize("setting", [SETTINGS["T=1"], SETTINGS["penalties"]], ids=["T=1", "penalties"])
def test_law_of_a_model_with_memory_across_drafter_switches(setting: dict[str, Any]) -> None:
    engine = model_engine(MEMORY_DRAFTER, MEMORY)
    assert_law(engine, MEMORY, setting, drafter="switching", gamma=2)


def test_markov_law_of_in_graph_rounds() -> None:
    engine, _ = table_engine(MARKOV, MARKOV_DRAFTER, vocabulary=V, rounds=(2,))
    assert_law(engine, MARKOV, SETTINGS["T=1"], gamma=2)


def test_law_with_a_trimmed_head(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([0, 2, 3], np.int32))
    drafter = with_memory(V, seed=3, columns=[0, 2, 3])
    engine, _ = table_engine(MEMORY, drafter, vocabulary=V, head_ids=tmp_path / "ids.npy")
    assert_law(engine, MEMORY, SETTINGS["T=1"], gamma=3)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(
    ("drafter", "gamma"), [("draft", 1), ("draft", 3), ("draft", 6), ("ngram", 3), ("switching", 1), ("switching", 3)]
)
def test_law_of_many_sequences(setting: dict[str, Any], drafter: str, gamma: int) -> None:
    """A Markov model has no use for its cache; the one that drafters take turns on has memory."""
    models = (MEMORY_DRAFTER, MEMORY) if drafter == "switching" else (MARKOV_DRAFTER, MARKOV)
    assert_law(model_engine(*models), models[1], setting, sequences=20_000, drafter=drafter, gamma=gamma)


@pytest.mark.parametrize("how", [{"plain": True}, {"gamma": 3}, {"drafter": "ngram", "gamma": 3}], ids=str)
def test_the_same_seed_gives_the_same_text(how: dict[str, Any]) -> None:
    engine = model_engine(MEMORY_DRAFTER, MEMORY)
    params = SamplingParams(max_new_tokens=30, temperature=1.0, seed=7)
    first = engine.generate(PROMPT, params, **how).finish().ids
    engine.generate([1, 1, 3], SamplingParams(max_new_tokens=9, temperature=1.0)).finish()
    assert engine.generate(PROMPT, params, **how).finish().ids == first
    other = SamplingParams(max_new_tokens=30, temperature=1.0, seed=8)
    assert engine.generate(PROMPT, other, **how).finish().ids != first


def test_without_a_seed_texts_differ_and_can_be_repeated() -> None:
    engine = model_engine()
    params = SamplingParams(max_new_tokens=40, temperature=1.0)
    first, second = (engine.generate(PROMPT, params).finish() for _ in range(2))
    assert first.seed != second.seed
    assert first.ids != second.ids
    again = SamplingParams(max_new_tokens=40, temperature=1.0, seed=first.seed)
    assert engine.generate(PROMPT, again).finish().ids == first.ids


def test_sampled_first_tokens_are_not_the_likeliest_one() -> None:
    engine = model_engine(MEMORY_DRAFTER, MEMORY)
    firsts = {
        next(engine.generate(PROMPT, SamplingParams(max_new_tokens=1, temperature=1.0, seed=seed)))
        for seed in range(300)
    }
    assert len(firsts) >= 3


def test_samples_of_a_request_differ_and_share_the_prefill() -> None:
    engine, _ = table_engine(MEMORY, MEMORY_DRAFTER, vocabulary=V)
    params = SamplingParams(max_new_tokens=20, temperature=1.0, n=4, seed=3)
    samples = [generation.finish() for generation in engine.generate_samples(PROMPT, params)]
    assert len({tuple(sample.ids) for sample in samples}) == 4
    assert [sample.stats.verifier_prefilled_tokens for sample in samples] == [4, 1, 1, 1]
    assert [sample.stats.drafter_prefilled_tokens for sample in samples[1:]] == [0, 0, 0]
    again = [generation.finish().ids for generation in engine.generate_samples(PROMPT, params)]
    assert again == [sample.ids for sample in samples]
