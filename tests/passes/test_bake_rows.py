from collections.abc import Sequence

import numpy as np
import pytest

from specc.core.oracle import Oracle
from specc.models.decoder import DecoderShape
from specc.passes.bake_rows import bake_rows
from tests.models.support import Runner, oracle_runner, random_decoder, token_ids


@pytest.mark.parametrize("rows", [[0, 1, 2], [2], [2, 0]])
def test_the_baked_rows_logits_come_out(rows: Sequence[int]) -> None:
    decoder = random_decoder("llama", DecoderShape(24, width=3, rows=len(rows)))
    baked = bake_rows(decoder.clone(), rows)
    assert "rows" not in {v.name for v in baked.graph.inputs}
    ids = token_ids(3)
    every = oracle_runner(random_decoder("llama", DecoderShape(24))).feed(ids)
    evaluator = Oracle(baked)
    runner = Runner(decoder, evaluator)
    fed = {"tokens": ids[None], "position": np.asarray([0]), **runner.state}
    fed |= {"depths": np.arange(3), "block": np.tri(3, dtype=np.bool_)}
    np.testing.assert_allclose(evaluator.run(fed)["logits"][0], every[list(rows)], rtol=0, atol=1e-6)
