from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax as expected_log_softmax
from scipy.special import rel_entr

from specc.assembly.quality import Distances, distance_from_checkpoint, log_softmax
from specc.assembly.sources import open_model
from specc.progress import Silent
from specc_runtime.bundle import open_bundle
from tests.support.tiny_models import compiled, tiny_model

LOGITS = np.random.default_rng(0).normal(0, 4, (50, 31)).astype(np.float32)
OTHER = LOGITS + np.random.default_rng(1).normal(0, 0.5, LOGITS.shape).astype(np.float32)


def test_log_softmax() -> None:
    np.testing.assert_allclose(log_softmax(LOGITS + 300), expected_log_softmax(LOGITS, axis=-1), rtol=0, atol=1e-4)


def test_distances_are_scipys_however_they_are_fed() -> None:
    p, q = (log_softmax(logits).astype(np.float64) for logits in (LOGITS, OTHER))
    divergences = rel_entr(np.exp(p), np.exp(q)).sum(axis=-1) - np.exp(p).sum(axis=-1) + np.exp(q).sum(axis=-1)
    distances = Distances()
    for start, end in ((0, 7), (7, 8), (8, 50)):
        distances.add(log_softmax(LOGITS[start:end]), log_softmax(OTHER[start:end]))
    summary = distances.summary()
    assert summary["kl"] == pytest.approx(divergences.mean(), rel=1e-4)
    assert summary["kl_p99"] == pytest.approx(np.quantile(divergences, 0.99), rel=1e-4)
    assert summary["argmax_agreement"] == (LOGITS.argmax(-1) == OTHER.argmax(-1)).mean()
    assert summary["tokens"] == 50


def test_no_distance_from_itself() -> None:
    distances = Distances()
    distances.add(log_softmax(LOGITS), log_softmax(LOGITS))
    assert distances.summary() == {"kl": 0.0, "kl_p99": 0.0, "argmax_agreement": 1.0, "tokens": 50.0}


def test_a_bundle_that_is_its_checkpoint_is_at_no_distance(tmp_path: Path) -> None:
    """And one of another checkpoint is far away: the measure sees weights, not names."""
    model, other = tiny_model(tmp_path / "m"), tiny_model(tmp_path / "other", seed=1)
    compiled(model, tmp_path / "b")
    bundle = open_bundle(tmp_path / "b")
    near = distance_from_checkpoint(bundle, open_model(str(model), ()), None, Silent())
    assert near["kl"] < 1e-6
    assert near["argmax_agreement"] == 1
    assert near["tokens"] == 512
    far = distance_from_checkpoint(bundle, open_model(str(other), ()), None, Silent())
    assert far["kl"] > 0.5
    assert far["argmax_agreement"] < 0.2
