from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.assembly.drafters import plan_drafters
from specc.assembly.sources import ModelSource, open_model
from specc.errors import OptionError
from specc.options import CompileOptions, DraftVocabulary
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.refusals import refuses
from tests.support.tiny_models import TOKENS, options, tiny_model


@pytest.fixture
def verifier(tmp_path: Path) -> ModelSource:
    return open_model(str(tiny_model(tmp_path / "verifier")), ())


def asked(verifier: ModelSource, draft: str, **more: Any) -> CompileOptions:
    return options(Path(verifier.checkpoint.path), Path("unused"), draft, **more)


def test_ngram_needs_no_model(verifier: ModelSource) -> None:
    assert plan_drafters(asked(verifier, "ngram"), verifier, 48) == ()


def test_a_slice(verifier: ModelSource) -> None:
    (plan,) = plan_drafters(asked(verifier, "slice:2"), verifier, 48)
    assert (plan.key, plan.name, plan.source.spec.layers, plan.context) == ("drafter", "slice:2", 2, 48)
    assert plan.head_ids == TOKENS
    with refuses(OptionError, "slice:3"):
        plan_drafters(asked(verifier, "slice:3"), verifier, 48)


@pytest.mark.parametrize(
    ("family", "fields", "context"),
    [
        ("llama", {"max_position_embeddings": 40}, 40),
        ("llama", {"max_position_embeddings": 400}, 48),
        ("mistral", {"sliding_window": 24}, 24),
        ("llama", {"max_position_embeddings": 20, "rope_scaling": {"type": "linear", "factor": 2.0}}, 40),
    ],
)
def test_positions_a_checkpoint_may_use(
    family: str, fields: dict[str, Any], context: int, verifier: ModelSource, tmp_path: Path
) -> None:
    path = tiny_model(tmp_path / "drafter", family, **fields)
    (plan,) = plan_drafters(asked(verifier, str(path)), verifier, 48)
    assert (plan.name, plan.context, plan.source.weights_of) == (str(path), context, None)


def test_ids_the_drafter_lacks_are_not_drafted(verifier: ModelSource, tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "drafter", tokenizer=tiny_tokenizer_json(TOKENS - 1))
    (plan,) = plan_drafters(asked(verifier, str(path)), verifier, 48)
    np.testing.assert_array_equal(plan.head_ids, np.arange(TOKENS - 1))


def test_a_trimmed_head_keeps_the_eos_and_what_is_frequent(verifier: ModelSource) -> None:
    wanted = asked(verifier, "slice:1", draft_vocabulary=DraftVocabulary(count=12))
    (plan,) = plan_drafters(wanted, verifier, 48)
    assert isinstance(plan.head_ids, np.ndarray)
    assert len(plan.head_ids) == 12
    assert TOKENS - 1 in plan.head_ids
    assert ord("o") - ord("a") in plan.head_ids
