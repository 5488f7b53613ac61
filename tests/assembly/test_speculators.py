"""Drafters in the speculators format beside their verifier: what is shared, and what does not belong together."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.assembly.core_models import DrafterPlan, drafter_core, verifier_core
from specc.assembly.core_text import CoreText
from specc.assembly.drafters import plan_drafters
from specc.assembly.sources import ModelSource, open_model
from specc.assembly.speculators import open_trained
from specc.core.initializers import part_of, stored_name
from specc.errors import CheckpointError, SpeccError, UnsupportedError, VocabularyError
from specc.options import DraftVocabulary, parse_precision
from tests.models.support import weights_from
from tests.support.refusals import refuses
from tests.support.speculators import layer_config, speculator_config, speculator_weights, write_speculator
from tests.support.tiny_models import TOKENS, options, tiny_model

IDS = np.array([0, 3, 7, 100, TOKENS - 1])


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return open_model(str(tiny_model(tmp_path_factory.mktemp("v") / "verifier")), ())


def write(
    folder: Path,
    *,
    layer: Mapping[str, Any] | None = None,
    model_type: str = "eagle3",
    ids: np.ndarray | None = IDS,
    fields: Mapping[str, Any] | None = None,
    **weights: Any,
) -> Path:
    given = layer_config() | dict(layer or {})
    rows = None if ids is None else len(ids)
    config = speculator_config(given, model_type=model_type, head_rows=rows) | dict(fields or {})
    features = 3 if model_type == "eagle3" else 0
    return write_speculator(folder, config, speculator_weights(given, features=features, **weights), ids)


def planned(verifier: ModelSource, folder: Path, **more: Any) -> DrafterPlan:
    asked = options(Path(verifier.checkpoint.path), Path("unused"), str(folder), **more)
    (plan,) = plan_drafters(asked, verifier, 48)
    return plan


def test_a_plan(verifier: ModelSource, tmp_path: Path) -> None:
    plan = planned(verifier, write(tmp_path / "d"))
    assert (plan.key, plan.name, plan.context, plan.reads_features) == ("drafter", str(tmp_path / "d"), 48, True)
    np.testing.assert_array_equal(plan.head_ids, IDS)
    own = speculator_weights(layer_config())
    assert plan.info().parameters == sum(w.size for w in own.values()) + 64 * (TOKENS + len(IDS))
    assert (plan.info().model_type, plan.info().hidden_size, plan.info().vocab_rows) == ("eagle3", 64, TOKENS)


def test_its_own_limit_of_positions(verifier: ModelSource, tmp_path: Path) -> None:
    assert planned(verifier, write(tmp_path / "d", layer={"max_position_embeddings": 20})).context == 20


def test_a_whole_head_may_be_trimmed(verifier: ModelSource, tmp_path: Path) -> None:
    folder = write(tmp_path / "d", ids=None)
    assert planned(verifier, folder).head_ids == TOKENS
    assert len(planned(verifier, folder, draft_vocabulary=DraftVocabulary(count=12)).head_ids) == 12  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["reference", "int8", "embedding=fp16,draft=bf16"])
@pytest.mark.parametrize("model_type", ["eagle3", "independent"])
def test_what_is_the_verifiers_is_stored_once(
    verifier: ModelSource, tmp_path: Path, model_type: str, precision: str
) -> None:
    plan = planned(verifier, write(tmp_path / "d", model_type=model_type))
    asked = parse_precision(precision).resolve(("fp32",), "fp32")
    cores = verifier_core(verifier, asked, 40, [plan]), drafter_core(plan, asked, 40)
    stored = [{stored_name(v): part_of(v) for v in core.graph.graph.initializers.values()} for core in cores]
    shared = stored[0].keys() & stored[1].keys()
    assert {stored[1][name] for name in shared} == {"embedding"}
    fused = [v.dtype for v in cores[0].graph.graph.initializers.values() if part_of(v) == "features"]
    assert bool(fused) == (model_type == "eagle3")


def test_an_independent_drafter_is_the_decoder_its_config_describes(verifier: ModelSource, tmp_path: Path) -> None:
    """The same weights under a checkpoint's names, with the verifier's tables, as a checkpoint of its own."""
    layer = layer_config(num_hidden_layers=2)
    weights = speculator_weights(layer, features=0, seed=5)
    config = speculator_config(layer, model_type="independent", head_rows=len(IDS))
    plan = planned(verifier, write_speculator(tmp_path / "d", config, weights, IDS))
    precision = parse_precision("reference").resolve(("fp32",), "fp32")

    tables = ("model.embed_tokens.weight", "lm_head.weight")
    theirs = {name: verifier.checkpoint.weights[name].numpy() for name in tables}
    source = open_model(str(tiny_model(tmp_path / "whole", num_hidden_layers=2)), ())
    named = weights_from({f"model.{name}": array for name, array in weights.items()} | theirs)
    same = replace(source, checkpoint=replace(source.checkpoint, weights=named))
    text = np.array([5, 9, 200, 17])
    expected = CoreText(drafter_core(DrafterPlan("d", "d", same, 40, IDS.astype(np.int32)), precision, 40).graph)
    found = CoreText(drafter_core(plan, precision, 40).graph)
    np.testing.assert_allclose(found.logits(text), expected.logits(text), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "error", "said"),
    [
        ({"layer": {"vocab_size": 299}, "ids": IDS[:4]}, VocabularyError, ["vocab_size is 299", "300 rows"]),
        ({"layer": {"hidden_size": 32}}, CheckpointError, ["hidden_size is 32", "64 columns", "trained for tiny"]),
        ({"fields": {"eagle_aux_hidden_state_layer_ids": [0, 1, 4]}}, CheckpointError, ["layer 4", "with 3"]),
        ({"fields": {"eagle_aux_hidden_state_layer_ids": [-1, 1, 2]}}, CheckpointError, ["layer -1"]),
        ({"layer": {"rope_scaling": {"rope_type": "wild"}}}, UnsupportedError, ["rope"]),
        ({"layer": {"new_field": 1}}, UnsupportedError, ["new_field"]),
        ({"layer": {"model_type": "gpt2"}}, UnsupportedError, ["model_type"]),
        (
            {"layer": {"vocab_size": 200}, "ids": IDS[:3], "own_embedding": True, "head_rows": 3},
            VocabularyError,
            ["its embedding has 200 rows", "up to 299"],
        ),
        (
            {"layer": {"vocab_size": 310}, "ids": np.array([1, 305]), "own_embedding": True, "head_rows": 2},
            VocabularyError,
            ["token 305", "up to 299"],
        ),
    ],
)
def test_what_does_not_belong_together(
    verifier: ModelSource, tmp_path: Path, made: dict[str, Any], error: type[SpeccError], said: list[str]
) -> None:
    folder = write(tmp_path / "d", **made)
    with refuses(error, tmp_path / "d", *said):
        open_trained(folder, "d", verifier, ())


def test_a_feature_drafter_without_a_layer(verifier: ModelSource, tmp_path: Path) -> None:
    weights = speculator_weights(layer_config())
    config = speculator_config(layer_config(num_hidden_layers=0), head_rows=len(IDS))
    with refuses(CheckpointError, "num_hidden_layers is 0"):
        open_trained(write_speculator(tmp_path / "d", config, weights, IDS), "d", verifier, ())
