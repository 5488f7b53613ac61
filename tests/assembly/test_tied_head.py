from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc.assembly.tied_head import check_head
from specc.checkpoint.types import Checkpoint
from specc.errors import CheckpointError
from specc.models.families import describe
from tests.models.support import tiny_config, weights_from
from tests.support.refusals import refuses

TABLE = np.arange(8, dtype=np.float32).reshape(4, 2)
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def check(tied: bool, **weights: NDArray[Any]) -> None:
    names = {"embedding": EMBEDDING, "head": HEAD}
    held = weights_from({names[name]: array for name, array in weights.items()})
    spec = describe(tiny_config("llama", tie_word_embeddings=tied), "m")
    check_head(Checkpoint("m", "m", {}, held, None), spec)


@pytest.mark.parametrize(
    ("tied", "weights"),
    [
        (True, {"embedding": TABLE}),
        (True, {"embedding": TABLE, "head": TABLE.copy()}),
        (False, {"embedding": TABLE, "head": TABLE + 1}),
        (False, {"embedding": TABLE, "head": TABLE.copy()}),
        (True, {"head": TABLE}),  # the missing embedding is reported where it is loaded
    ],
)
def test_config_and_weights_agree(tied: bool, weights: dict[str, NDArray[Any]]) -> None:
    check(tied, **weights)


def test_an_untied_head_must_be_there() -> None:
    with refuses(CheckpointError, "m: weight 'lm_head.weight' is missing", "'tie_word_embeddings' is not true"):
        check(tied=False, embedding=TABLE)


@pytest.mark.parametrize("head", [TABLE + 1, TABLE[:3]])
def test_a_tied_head_must_not_differ(head: NDArray[Any]) -> None:
    with refuses(CheckpointError, "m: ", "'tie_word_embeddings' is true", "is not the embedding", "set the field"):
        check(tied=True, embedding=TABLE, head=head)
