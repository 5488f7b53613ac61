"""Later turns that feed a model again what it has seen (ml-explore/mlx-examples/pull/1155; vllm-metal/pull/630)."""

import pytest

from specc_runtime import Engine, SamplingParams
from tests.support.tiny_models import TinyBundles


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("gamma", [1, 3])
def test_a_turn_feeds_both_models_only_what_is_new(tiny: TinyBundles, gamma: int, fused: bool) -> None:
    bundle = tiny.bundle(gammas=(1, 3), fuse=True, context=128)
    engine, fresh = Engine.load(bundle, fused=fused), Engine.load(bundle)
    asked, text = SamplingParams(max_new_tokens=20, ignore_eos=True), [1, 2, 3]
    for turn in range(4):
        generation = engine.generate(text, asked, gamma=gamma).finish()
        assert generation.ids == fresh.generate(text, asked, plain=True).finish().ids
        # New is what was appended, and what the last turn emitted but never fed: its last token, and for the drafter
        # the last of a draft accepted whole or of a plain step; its first step of a round feeds two by itself.
        new = len(text) if turn == 0 else 4
        assert generation.stats.verifier_prefilled_tokens == new
        assert new - 3 <= generation.stats.drafter_prefilled_tokens <= new + 1
        text = [*text, *generation.ids, 7, turn, 9]
