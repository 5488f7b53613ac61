"""The laws of tables and of a two-layer model again, on XLA: the texts drawn there follow them too."""

from pathlib import Path
from typing import Any

import pytest

from specc_runtime import Engine
from tests.conformance import test_markov as markov
from tests.conformance import test_two_layers as two_layers

pytest.importorskip("jax", reason="the XLA backend needs the extra specc[xla]")

GAMMAS = (1, 3)  # a program is compiled for each
SETTINGS = ("T=1", "T=.8, top_k", "top_p", "penalties")
TABLE_CASES = [case._replace(gamma=min(case.gamma, 3)) for case in markov.CASES if case.setting in SETTINGS]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Engine]:
    bundles = markov.compiled_tables(tmp_path_factory.mktemp("markov-xla"), GAMMAS, backend="xla")
    return markov.loaded_engines(bundles)


@pytest.mark.parametrize("case", TABLE_CASES, ids=str)
def test_law_of_a_table(engines: dict[tuple[str, bool], Engine], case: markov.Case) -> None:
    markov.check_law(engines[case.drafter, case.fused], case, sequences=200)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return two_layers.compiled_models(tmp_path_factory.mktemp("two-layers-xla"), backend="xla")


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of ONNX Runtime's bundle: XLA is held to the other engine's law."""
    return two_layers.laws_of(two_layers.compiled_models(tmp_path_factory.mktemp("two-layers-ort"))["slice"])


@pytest.mark.parametrize("case", two_layers.CASES, ids=lambda case: ", ".join(map(str, case)))
def test_law_of_two_layers(bundles: dict[str, Path], laws: dict[str, Any], case: two_layers.Case) -> None:
    two_layers.check_law(bundles, laws[case.setting], case, sequences=200)
