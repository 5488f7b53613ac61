"""Full verification points on compiled bundles: the same in speculative and in plain decoding, drift told, repaired."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from specc.cli.app import run
from specc_runtime import Engine, OptionError, SamplingParams
from tests.support.refusals import refuses
from tests.support.tiny_models import TinyBundles

PROMPT = (1, 2, 3)
LENGTH = 60
GAMMAS = (1, 3, 6)
WAYS: list[dict[str, Any]] = [*({"gamma": gamma} for gamma in GAMMAS), {"drafter": "ngram", "gamma": 6}]


def load(tiny: TinyBundles, precision: str = "reference", *, fused: bool = False) -> Engine:
    return Engine.load(tiny.bundle(precision=precision, gammas=GAMMAS, fuse=True, context=128), fused=fused)


def params(every: int, **more: Any) -> SamplingParams:
    return SamplingParams(max_new_tokens=LENGTH, ignore_eos=True, verify_every=every, **more)


@pytest.mark.parametrize("every", [5, 16])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("precision", ["reference", "int8"])
def test_speculative_is_plain(tiny: TinyBundles, precision: str, fused: bool, every: int) -> None:
    engine = load(tiny, precision, fused=fused)
    plain = engine.generate(PROMPT, params(every), plain=True).finish()
    points = [n for n in range(len(PROMPT) + 1, len(PROMPT) + LENGTH) if n % every == 0]
    for way in WAYS:
        speculative = engine.generate(PROMPT, params(every), **way).finish()
        assert speculative.ids == plain.ids, way
        assert speculative.stats.full_verifications == plain.stats.full_verifications == len(points)
        difference = speculative.stats.largest_logit_difference
        assert difference == pytest.approx(plain.stats.largest_logit_difference, rel=0, abs=1e-5)


def test_samples_have_points_of_their_own(tiny: TinyBundles) -> None:
    engine = load(tiny)
    sampled = params(16, temperature=1.0, seed=4, n=3)
    for generation in engine.generate_samples(PROMPT, sampled, gamma=3):
        assert generation.finish().stats.full_verifications == 3


@pytest.mark.parametrize("way", [{"plain": True}, {"gamma": 3}], ids=str)
def test_a_spoiled_cache_is_found_and_replaced(tiny: TinyBundles, way: dict[str, Any]) -> None:
    engine = load(tiny)
    expected = engine.generate(PROMPT, params(0), **way).finish().ids
    generation = engine.generate(PROMPT, params(32), **way)
    begun = list(islice(generation, 5))
    engine._models._programs.verify(np.array([9, 8, 7]), 2, 0)  # behind the back of the cache's bookkeeping
    at_the_point = 32 - len(PROMPT)
    spoiled = begun + list(islice(generation, at_the_point - len(begun)))
    assert spoiled != expected[:at_the_point], "the spoiled rows made no difference: the test shows nothing"
    rest = generation.finish().ids[at_the_point:]
    assert generation.stats.largest_logit_difference > 1e-2
    fresh = load(tiny).generate([*PROMPT, *spoiled], SamplingParams(max_new_tokens=LENGTH, ignore_eos=True), plain=True)
    assert rest == fresh.finish().ids[: len(rest)]


@pytest.mark.parametrize("precision", ["reference,kv=fp16", "embedding=fp16,kv=fp16,draft=bf16"])
def test_coarse_caches_are_refused(tiny: TinyBundles, precision: str, capsys: pytest.CaptureFixture[str]) -> None:
    engine = load(tiny, precision)
    for way in ({"plain": True}, *WAYS):
        with refuses(OptionError, "verify_every", "float16", "--precision kv=fp32"):
            engine.generate(PROMPT, params(16), **way)
    assert len(engine.generate(PROMPT, params(0), gamma=3).finish().ids) == LENGTH
    bundle = str(engine.bundle.root)
    assert run(["run", bundle, "--prompt", "ab", "--verify-every", "16"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_line_tells_cost_and_drift(tiny: TinyBundles, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(load(tiny).bundle.root)
    asked = ["--prompt", "abcabc", "--ignore-eos", "--max-new-tokens", "40", "--gamma", "3", "--compare"]
    assert run(["run", bundle, *asked, "--verify-every", "16"]) == 0
    told = capsys.readouterr().err
    for text in ("full verifications", "largest logit difference", "tokens identical to plain decoding: yes"):
        assert text in told
