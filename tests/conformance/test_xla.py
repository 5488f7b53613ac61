"""The laws of tables and of a two-layer model again, on XLA: the texts drawn there follow them too."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from specc_runtime import Engine, SamplingParams
from tests.conformance import test_markov as markov
from tests.conformance import test_two_layers as two_layers
from tests.support.markov_checkpoints import table_logits
from tests.support.reference_law import chi_square_p, joint_law

pytest.importorskip("jax", reason="the XLA backend needs the extra specc[xla]")

GAMMA = 3  # a round and a loop are compiled for each
SETTINGS = ("T=1", "T=.8, top_k", "top_p", "penalties")
TABLE_CASES = [
    case._replace(gamma=GAMMA if case.fused else min(case.gamma, GAMMA))
    for case in markov.CASES
    if case.setting in SETTINGS
]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Engine]:
    bundles = markov.compiled_tables(tmp_path_factory.mktemp("markov-xla"), (GAMMA,), backend="xla", loop=True)
    return markov.loaded_engines(bundles)


@pytest.mark.parametrize("case", TABLE_CASES, ids=str)
def test_law_of_a_table(engines: dict[tuple[str, bool], Engine], case: markov.Case) -> None:
    markov.check_law(engines[case.drafter, case.fused], case, sequences=200)


def check_looped_law(engine: Engine, setting: str, sequences: int) -> None:
    """The first tokens of texts that one program generates whole."""
    params = SamplingParams(max_new_tokens=markov.LENGTH + 7, n=sequences, seed=0, **markov.SETTINGS[setting])
    logits, texts = table_logits(markov.TABLE), Counter[tuple[int, ...]]()
    law = joint_law(lambda ids: logits[ids[-1]], params, markov.PROMPT, markov.VOCABULARY, markov.LENGTH)
    for generation in engine.generate_samples(markov.PROMPT, params, gamma=GAMMA):
        texts[tuple(generation.finish().ids[: markov.LENGTH])] += 1
        assert generation.stats.draft_s == 0 < generation.stats.spec_decode_num_drafts
    assert chi_square_p(texts, law) > 1e-3


LOOPED = [("T=1", "checkpoint"), ("T=.8, top_k", "trimmed")]


@pytest.mark.parametrize(("setting", "drafter"), LOOPED)
def test_law_of_a_table_in_a_loop(engines: dict[tuple[str, bool], Engine], setting: str, drafter: str) -> None:
    check_looped_law(engines[drafter, True], setting, sequences=300)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("setting", "drafter"), LOOPED)
def test_law_of_sixty_thousand_looped_texts(
    engines: dict[tuple[str, bool], Engine], setting: str, drafter: str
) -> None:
    check_looped_law(engines[drafter, True], setting, sequences=60_000)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return two_layers.compiled_models(tmp_path_factory.mktemp("two-layers-xla"), backend="xla", loop=True)


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of ONNX Runtime's bundle: XLA is held to the other engine's law."""
    return two_layers.laws_of(two_layers.compiled_models(tmp_path_factory.mktemp("two-layers-ort"))["slice"])


TWO_LAYER_CASES = [
    *two_layers.CASES,
    two_layers.Case("T=1", "slice", "looping", fused=True),
    two_layers.Case("top_p", "features", "looping", fused=True),
]


@pytest.mark.parametrize("case", TWO_LAYER_CASES, ids=lambda case: ", ".join(map(str, case)))
def test_law_of_two_layers(bundles: dict[str, Path], laws: dict[str, Any], case: two_layers.Case) -> None:
    two_layers.check_law(bundles, laws[case.setting], case, sequences=200)
