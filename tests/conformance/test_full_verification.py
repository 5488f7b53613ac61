"""Full verification points on compiled bundles: the same in speculative and in plain decoding, drift told, repaired."""

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.cli.app import run
from specc_runtime import Engine, OptionError, SamplingParams
from specc_runtime.manifest import MANIFEST_NAME
from specc_runtime.manifest_writing import manifest_json
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


COARSE = "reference,kv=fp16"


@pytest.mark.parametrize("every", [5, 16])
def test_with_16_bit_caches_speculative_is_plain_for_every_gamma(tiny: TinyBundles, every: int) -> None:
    engine = Engine.load(tiny.bundle(precision=COARSE, gammas=tuple(range(1, 9)), context=128))
    plain = engine.generate(PROMPT, params(every), plain=True).finish()
    points = [n for n in range(len(PROMPT) + 1, len(PROMPT) + LENGTH) if n % every == 0]
    assert plain.stats.full_verifications == len(points)
    for gamma in range(1, 9):
        speculative = engine.generate(PROMPT, params(every), gamma=gamma).finish()
        assert speculative.ids == plain.ids, gamma
        assert speculative.stats.full_verifications == len(points)
        difference = speculative.stats.largest_logit_difference
        assert difference == pytest.approx(plain.stats.largest_logit_difference, rel=0, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_at_each_point_the_token_is_that_of_full_precision_caches(tiny: TinyBundles, temperature: float) -> None:
    """A point at every token: the text of a bundle that is fp32 throughout, drift told of although nothing shows it."""
    asked = params(1, temperature=temperature, seed=3, logprobs=0)
    coarse, exact = (
        load(tiny, precision).generate(PROMPT, asked, gamma=3).finish() for precision in (COARSE, "reference")
    )
    assert coarse.ids == exact.ids
    told, expected = ([entry.logprob for entry in made.logprobs or ()][1:] for made in (coarse, exact))
    assert len(told) == LENGTH - 1
    np.testing.assert_allclose(told, expected, rtol=0, atol=2e-6)
    assert 1e-5 < coarse.stats.largest_logit_difference < 0.1
    assert exact.stats.largest_logit_difference < 1e-5


def test_the_caches_are_replaced_by_the_full_precision_ones_rounded(tiny: TinyBundles) -> None:
    engine = load(tiny, COARSE)
    engine.generate(PROMPT, params(16), plain=True).finish()
    buffers = engine._models._programs._caches._buffers  # type: ignore[attr-defined]
    held = slice(0, 48)  # the last point
    for number in range(3):
        for part in ("key", "value"):
            (kept, _), (exact, _) = (
                buffers["verifier", f"{prefix}layers.{number}.{part}"] for prefix in ("", "recomputed.")
            )
            assert exact[:, :, held].any()
            np.testing.assert_array_equal(kept[:, :, held], exact[:, :, held].astype(np.float16))


@pytest.mark.parametrize("way", [{"plain": True}, {"gamma": 3}], ids=str)
def test_recomputed_rows_leave_no_trace_in_the_next_request(tiny: TinyBundles, way: dict[str, Any]) -> None:
    """They are nearer to full precision than what a prefill writes: a prompt that reuses them could go another way."""
    prompt = [*PROMPT] * 10
    engine = load(tiny, COARSE)
    for every in (16, 16, 0):
        used = engine.generate(prompt, params(every, logprobs=0), **way).finish()
        fresh = load(tiny, COARSE).generate(prompt, params(every, logprobs=0), **way).finish()
        assert used.logprobs == fresh.logprobs
        assert used.stats.largest_logit_difference == fresh.stats.largest_logit_difference


def test_the_second_session_is_made_only_for_who_asks(tiny: TinyBundles) -> None:
    engine = load(tiny, COARSE)
    programs = engine._models._programs
    engine.generate(PROMPT, params(0), gamma=3).finish()
    assert "_recompute" not in vars(programs)
    engine.generate(PROMPT, params(16), gamma=3)
    assert programs.full_precision() is programs.full_precision() is not None


def test_without_a_program_for_it_coarse_caches_are_refused(
    tiny: TinyBundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in bundles of versions before there was one."""
    made = load(tiny, COARSE).bundle
    root = Path(shutil.copytree(made.root, tmp_path / "older"))
    programs = tuple(program for program in made.manifest.programs if program.kind != "recompute")
    (root / MANIFEST_NAME).write_text(manifest_json(replace(made.manifest, programs=programs)), encoding="utf-8")
    engine = Engine.load(root)
    for way in ({"plain": True}, *WAYS):
        with refuses(OptionError, "verify_every", "float16", "--precision kv=fp32"):
            engine.generate(PROMPT, params(16), **way)
    assert len(engine.generate(PROMPT, params(0), gamma=3).finish().ids) == LENGTH
    assert run(["run", str(root), "--prompt", "ab", "--verify-every", "16"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_line_tells_cost_and_drift(tiny: TinyBundles, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(load(tiny).bundle.root)
    asked = ["--prompt", "abcabc", "--ignore-eos", "--max-new-tokens", "40", "--gamma", "3", "--compare"]
    assert run(["run", bundle, *asked, "--verify-every", "16"]) == 0
    told = capsys.readouterr().err
    for text in ("full verifications", "largest logit difference", "tokens identical to plain decoding: yes"):
        assert text in told
