"""Models whose law is known, through the whole toolchain: checkpoint, compile, load, decode.

Every setting meets every kind of drafter, host-driven and fused; the draft lengths take turns.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from specc.options import DraftVocabulary
from specc_runtime import Engine, SamplingParams
from tests.support.markov_checkpoints import markov_checkpoint, random_table, table_logits
from tests.support.reference_law import chi_square_p, joint_law
from tests.support.tiny_models import compiled

VOCABULARY, LENGTH = 4, 5
PROMPT = (0, 2, 1, 2)
GAMMAS = (1, 3, 6)
HEAD_IDS = (0, 2, 3)
TABLE = random_table(VOCABULARY, seed=4)
TABLE[2, 3] = 0.0
TABLE /= TABLE.sum(axis=1, keepdims=True)
DRAFTER_TABLE = 0.5 * TABLE + 0.5 * random_table(VOCABULARY, seed=5)

SETTINGS: dict[str, dict[str, Any]] = {
    "T=1": {"temperature": 1.0},
    "T=.8, top_k": {"temperature": 0.8, "top_k": 2},
    "top_p": {"temperature": 1.0, "top_p": 0.7},
    "min_p": {"temperature": 1.3, "min_p": 0.3},
    "penalties": {"temperature": 1.0, "repetition_penalty": 1.6, "frequency_penalty": 0.8, "presence_penalty": 0.3},
}
DRAFTERS = ("checkpoint", "ngram", "trimmed")  # of a trimmed head: a checkpoint that can't propose every token


class Case(NamedTuple):
    setting: str
    drafter: str
    fused: bool
    gamma: int

    def __str__(self) -> str:
        return f"{self.setting}-{self.drafter}-{'fused' if self.fused else 'host'}-gamma {self.gamma}"


WAYS = [(drafter, False) for drafter in DRAFTERS] + [("checkpoint", True), ("trimmed", True)]
CASES = [
    Case(setting, drafter, fused, GAMMAS[(row + column) % len(GAMMAS)])
    for row, setting in enumerate(SETTINGS)
    for column, (drafter, fused) in enumerate(WAYS)
    if not (fused and setting == "penalties")  # no round program serves them
]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return compiled_tables(tmp_path_factory.mktemp("markov"), GAMMAS)


def compiled_tables(root: Path, gammas: tuple[int, ...], **more: Any) -> dict[str, Path]:
    """The same two tables compiled with a whole and with a trimmed drafter head, rounds of every gamma included."""
    verifier = markov_checkpoint(root / "verifier", TABLE)
    drafter = markov_checkpoint(root / "drafter", DRAFTER_TABLE)
    (root / "ids.txt").write_text("\n".join(map(str, HEAD_IDS)))
    heads = {"checkpoint": None, "trimmed": DraftVocabulary(file=root / "ids.txt")}
    for name, head in heads.items():
        compiled(verifier, root / name, str(drafter), gammas=gammas, fuse=True, draft_vocabulary=head, **more)
    return {name: root / name for name in heads}


@pytest.fixture(scope="module")
def engines(bundles: Mapping[str, Path]) -> dict[tuple[str, bool], Engine]:
    return loaded_engines(bundles)


def loaded_engines(bundles: Mapping[str, Path]) -> dict[tuple[str, bool], Engine]:
    """By drafter, and by whether rounds are fused."""
    loaded = {(name, fused): Engine.load(path, fused=fused) for name, path in bundles.items() for fused in (0, 1)}
    return loaded | {("ngram", False): loaded["checkpoint", False]}


def sampled_texts(engine: Engine, case: Case, sequences: int) -> Counter[tuple[int, ...]]:
    """The first LENGTH tokens of each of the samples of one request.

    More tokens are asked for than are looked at: the end of a request cuts gamma.
    """
    params = SamplingParams(max_new_tokens=LENGTH + 7, n=sequences, seed=0, **SETTINGS[case.setting])
    drafter = "ngram" if case.drafter == "ngram" else "drafter"
    texts: Counter[tuple[int, ...]] = Counter()
    rounds: Counter[str] = Counter()
    for generation in engine.generate_samples(PROMPT, params, drafter=drafter, gamma=case.gamma):
        texts[tuple(islice(generation, LENGTH))] += 1
        generation.close()
        rounds["drafting"] += generation.stats.spec_decode_num_drafts
        rounds["accepted"] += generation.stats.spec_decode_num_accepted_tokens
        rounds["fused"] += generation.stats.spec_decode_num_drafts if not generation.stats.draft_s else 0
    assert rounds["drafting"] > sequences / 2
    assert 0 < rounds["accepted"] < case.gamma * rounds["drafting"]
    assert rounds["fused"] == rounds["drafting"] * (case.fused or case.drafter == "ngram")
    return texts


def check_law(engine: Engine, case: Case, sequences: int) -> None:
    logits: NDArray[np.float32] = table_logits(TABLE)
    params = SamplingParams(**SETTINGS[case.setting])
    law = joint_law(lambda ids: logits[ids[-1]], params, PROMPT, VOCABULARY, LENGTH)
    texts = sampled_texts(engine, case, sequences)
    assert sum(texts.values()) == sequences
    assert not texts.keys() - law.keys(), "a text the verifier never writes"
    assert chi_square_p(texts, law) > 1e-3


@pytest.mark.parametrize("case", CASES, ids=str)
def test_law(engines: Mapping[tuple[str, bool], Engine], case: Case) -> None:
    check_law(engines[case.drafter, case.fused], case, sequences=400)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_law_of_sixty_thousand_texts(engines: Mapping[tuple[str, bool], Engine], case: Case) -> None:
    check_law(engines[case.drafter, case.fused], case, sequences=60_000)


def test_the_drafters_law_is_told_apart(engines: Mapping[tuple[str, bool], Engine]) -> None:
    """The same test refuses texts that follow the drafter's table: its power is real."""
    logits = table_logits(DRAFTER_TABLE)
    law = joint_law(lambda ids: logits[ids[-1]], SamplingParams(temperature=1.0), PROMPT, VOCABULARY, LENGTH)
    assert chi_square_p(sampled_texts(engines["checkpoint", False], CASES[0], 400), law) < 1e-6
