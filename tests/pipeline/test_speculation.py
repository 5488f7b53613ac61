"""The default gamma: measured when a bundle is compiled, plain decoding if nothing pays."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specc.pipeline import compile_bundle
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines.base import Tokens
from specc_runtime.manifest import Manifest
from tests.support.tiny_models import TinyBundles, compiled, options


@pytest.mark.parametrize("draft", ["slice:1", "ngram"])
def test_every_drafter_is_measured(draft: str, tiny: TinyBundles, tmp_path: Path) -> None:
    compiled(tiny.model(), tmp_path / "b", draft, gammas=(1, 3), measure=True)
    manifest = open_bundle(tmp_path / "b").manifest
    (drafter,) = manifest.drafters.values()
    assert drafter.measured is not None
    assert len(drafter.measured.round_s) == 4
    assert manifest.gamma in (0, 1, 3)
    engine = Engine.load(tmp_path / "b")
    params = SamplingParams(max_new_tokens=30, ignore_eos=True)
    plain = engine.generate([50, 60, 7, 8, 50, 60], params, plain=True).finish().ids
    assert engine.generate([50, 60, 7, 8, 50, 60], params, gamma="auto").finish().ids == plain


@pytest.mark.parametrize("gamma", [0, 2])
def test_the_default_is_what_was_measured(gamma: int, tiny: TinyBundles, tmp_path: Path) -> None:
    def measure(bundle: Bundle, prompts: Sequence[Tokens]) -> Manifest:
        assert len(prompts) > 0
        return replace(bundle.manifest, gamma=gamma)

    compile_bundle(options(tiny.model(), tmp_path / "b", gammas=(2, 4), measure=True), measure=measure)
    stats = Engine.load(tmp_path / "b").generate([50, 60], SamplingParams(max_new_tokens=9)).finish().stats
    assert stats.spec_decode_num_drafts == 0 if gamma == 0 else len(stats.spec_decode_num_accepted_tokens_per_pos) == 2


def test_without_measuring_the_default_is_the_nearest_to_four(tiny: TinyBundles, tmp_path: Path) -> None:
    report = compiled(tiny.model(), tmp_path / "b", gammas=(1, 3, 8))
    assert report.manifest.gamma == 3
    assert all(drafter.measured is None for drafter in report.manifest.drafters.values())
