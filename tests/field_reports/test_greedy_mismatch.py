"""Speculative greedy text that leaves plain greedy text (ml-explore/mlx-lm/issues/1423, 1470; pull/1109)."""

import pytest

from specc_runtime import Engine, SamplingParams
from tests.support.tiny_models import TinyBundles

TOKENS = SamplingParams(max_new_tokens=1000, ignore_eos=True)


@pytest.mark.parametrize("drafter", ["drafter", "ngram"])
def test_a_thousand_tokens_are_identical_for_every_gamma(tiny: TinyBundles, drafter: str) -> None:
    """In fp32 on the CPU; logits are equal to the last bit, so no near-tie can flip."""
    model = tiny.model(max_position_embeddings=1024)
    engine = Engine.load(tiny.bundle(model, gammas=tuple(range(1, 9)), context=1024))
    plain = engine.generate([5, 6, 7], TOKENS, plain=True).finish()
    assert len(plain.ids) == 1000
    for gamma in range(1, 9):
        assert engine.generate([5, 6, 7], TOKENS, drafter=drafter, gamma=gamma).finish().ids == plain.ids
