"""A random model of two layers, through the whole toolchain, against its joint law over every text of four tokens.

Unlike a table it has a cache: rejections, full acceptance and rounds without the drafter must all leave it right.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime import Engine, SamplingParams
from specc_runtime.drafting.base import Drafter
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.drafting.none import NoDrafter
from specc_runtime.engines import load_programs
from tests.support.reference_law import chi_square_p, joint_law
from tests.support.speculators import layer_config, speculator_config, speculator_weights, write_speculator
from tests.support.switching import SwitchingDrafter
from tests.support.tiny_models import compiled, tiny_model

VOCABULARY, LENGTH = 8, 4
PROMPT = (5, 1, 4, 5)
SETTINGS: dict[str, dict[str, Any]] = {
    "T=1": {"temperature": 1.0},
    "top_p": {"temperature": 0.8, "top_p": 0.9},
}
GAMMA = 2


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return compiled_models(tmp_path_factory.mktemp("two-layers"))


def compiled_models(root: Path, **more: Any) -> dict[str, Path]:
    """One verifier under two drafters that are often right and often wrong: its first layer, and a feature drafter."""
    model = tiny_model(root / "model", num_hidden_layers=2, vocab_size=VOCABULARY, tokenizer=None)
    layer = layer_config(vocab_size=VOCABULARY)
    features = write_speculator(root / "features", speculator_config(layer), speculator_weights(layer))
    compiled(model, root / "slice bundle", "slice:1", gammas=(GAMMA,), fuse=True, **more)
    compiled(model, root / "features bundle", str(features), gammas=(GAMMA,), **more)
    return {drafter: root / f"{drafter} bundle" for drafter in ("slice", "features")}


@pytest.fixture(scope="module")
def laws(bundles: dict[str, Path]) -> dict[str, dict[tuple[int, ...], float]]:
    return laws_of(bundles["slice"])


def laws_of(bundle: Path) -> dict[str, dict[tuple[int, ...], float]]:
    """Of every text, by setting: each prefix is fed to programs of their own, from the first row on."""
    programs = load_programs(Engine.load(bundle).bundle)

    def logits_of(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        programs.reset()
        return programs.verify(ids, 0, 1)[0].copy()

    return {
        name: joint_law(logits_of, SamplingParams(**setting), PROMPT, VOCABULARY, LENGTH)
        for name, setting in SETTINGS.items()
    }


def drafting(engine: Engine, params: SamplingParams) -> Iterator[list[int]]:
    """Texts of the samples of one request, all drafted by the model."""
    counts: Counter[str] = Counter()
    for generation in engine.generate_samples(PROMPT, params, gamma=GAMMA):
        yield list(islice(generation, LENGTH))
        generation.close()
        stats = generation.stats
        per_position = [*stats.spec_decode_num_accepted_tokens_per_pos, 0, 0]
        counts["drafts"] += stats.spec_decode_num_drafts
        counts["accepted"] += per_position[0]
        counts["accepted whole"] += per_position[GAMMA - 1]
    assert 0 < counts["accepted whole"] < counts["accepted"] < counts["drafts"], "some outcome never came"


def switching_each_round(engine: Engine, params: SamplingParams) -> Iterator[list[int]]:
    """Texts whose rounds are drafted by the model, by n-gram lookup or by nobody, each text starting elsewhere."""
    model = engine._models.drafter("drafter", params, GAMMA)
    for seed in range(params.n):
        turns: list[Drafter] = [model, NgramDrafter(), model, NoDrafter()]
        drafter = SwitchingDrafter(turns[seed % 4 :] + turns[: seed % 4])
        generation = engine.generate(PROMPT, replace(params, n=1, seed=seed), drafter=drafter, gamma=GAMMA)
        yield list(islice(generation, LENGTH))
        generation.close()


def switching_each_turn(engine: Engine, params: SamplingParams) -> Iterator[list[int]]:
    """Texts made in two generations, the second going on from what the first wrote, drafted in another way."""
    ways: list[dict[str, Any]] = [{"drafter": "drafter"}, {"drafter": "ngram"}, {"plain": True}]
    for seed in range(params.n):
        first_way, second_way = ways[seed % 3], ways[seed // 3 % 3]
        first = engine.generate(PROMPT, replace(params, n=1, seed=seed), **first_way)
        begun = list(islice(first, 1 + seed % 3))
        first.close()
        second = engine.generate([*PROMPT, *begun], replace(params, n=1, seed=params.n + seed), **second_way)
        yield begun + list(islice(second, LENGTH - len(begun)))
        second.close()


def looping(engine: Engine, params: SamplingParams) -> Iterator[list[int]]:
    """Texts that one program generates whole."""
    assert engine._models._programs.loops
    for generation in engine.generate_samples(PROMPT, params, gamma=GAMMA):
        yield generation.finish().ids[:LENGTH]
        assert generation.stats.spec_decode_num_drafts > 0
        assert generation.stats.draft_s == 0


WAYS = {
    "looping": looping,
    "drafting": drafting,
    "switching each round": switching_each_round,
    "switching each turn": switching_each_turn,
}


class Case(NamedTuple):
    setting: str
    drafter: str
    way: str
    fused: bool = False


CASES = [
    Case("T=1", "slice", "drafting"),
    Case("T=1", "slice", "drafting", fused=True),
    Case("T=1", "slice", "switching each round"),
    Case("T=1", "slice", "switching each turn", fused=True),
    Case("T=1", "features", "switching each round"),
    Case("top_p", "slice", "drafting", fused=True),
    Case("top_p", "slice", "switching each turn"),
    Case("top_p", "features", "drafting"),
]


def check_law(bundles: dict[str, Path], law: dict[tuple[int, ...], float], case: Case, sequences: int) -> None:
    params = SamplingParams(max_new_tokens=LENGTH + 4, n=sequences, seed=1, **SETTINGS[case.setting])
    engine = Engine.load(bundles[case.drafter], fused=case.fused)
    texts = Counter(map(tuple, WAYS[case.way](engine, params)))
    assert sum(texts.values()) == sequences
    assert not texts.keys() - law.keys(), "a text the verifier never writes"
    assert chi_square_p(texts, law) > 1e-3


@pytest.mark.parametrize("case", CASES, ids=lambda case: ", ".join(map(str, case)))
def test_joint_law(bundles: dict[str, Path], laws: dict[str, Any], case: Case) -> None:
    check_law(bundles, laws[case.setting], case, sequences=500)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: ", ".join(map(str, case)))
def test_joint_law_of_sixty_thousand_texts(bundles: dict[str, Path], laws: dict[str, Any], case: Case) -> None:
    check_law(bundles, laws[case.setting], case, sequences=60_000)


def test_every_text_of_four_tokens_is_possible(laws: dict[str, Any]) -> None:
    assert len(laws["T=1"]) == VOCABULARY**LENGTH
    assert sum(laws["T=1"].values()) == pytest.approx(1.0, abs=1e-12)
    assert len(laws["top_p"]) < VOCABULARY**LENGTH


def test_the_law_remembers(laws: dict[str, Any]) -> None:
    """What follows the same last token differs with what came before it, so a wrong cache row would show."""
    following: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for text, mass in laws["T=1"].items():
        following.setdefault(text[1:3], np.zeros((VOCABULARY, VOCABULARY)))[text[0], text[3]] += mass
    conditional = [law / law.sum(axis=1, keepdims=True) for law in following.values()]
    assert max(np.ptp(law, axis=0).max() for law in conditional) > 0.1
