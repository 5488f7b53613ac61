"""Every option of a request on a compiled bundle: what plain decoding does with it, speculative decoding does too."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc_runtime import Engine, Generation, OptionError, SamplingParams
from specc_runtime.engines.base import Tokens
from specc_runtime.engines.ort import OrtPrograms
from specc_runtime.manifest import MANIFEST_NAME, Program
from specc_runtime.manifest_writing import manifest_json
from tests.support.checkpoints import decoder_config, tiny_tokenizer_json, write_hf_checkpoint
from tests.support.refusals import refuses
from tests.support.tiny_models import EOS, TOKENS, TinyBundles, compiled, tiny_weights

GAMMAS = (1, 3, 6)
WAYS = [("drafter", gamma) for gamma in GAMMAS] + [("ngram", 3)]
PROMPT = (1, 2, 3)
LETTERS = (*range(26), *range(256, TOKENS - 1))  # ids whose text is letters, a pair of them from 256 on
LENGTH = 60


def bundle_of(tiny: TinyBundles, precision: str = "reference") -> Path:
    return tiny.bundle(precision=precision, gammas=GAMMAS, fuse=True, context=128)


@pytest.fixture(scope="module")
def engine(tiny: TinyBundles) -> Engine:
    return Engine.load(bundle_of(tiny))


@pytest.fixture(scope="module")
def fused(tiny: TinyBundles) -> Engine:
    return Engine.load(bundle_of(tiny), fused=True)


def greedy(**options: Any) -> SamplingParams:
    return SamplingParams(**{"max_new_tokens": LENGTH, "ignore_eos": True} | options)


@pytest.fixture
def rounds_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the round programs that were called, call by call."""
    calls: list[str] = []
    original = OrtPrograms.round

    def counted(programs: OrtPrograms, program: Program, *arguments: Any) -> Tokens:
        calls.append(program.id)
        return original(programs, program, *arguments)

    monkeypatch.setattr(OrtPrograms, "round", counted)
    return calls


def every_third_sum_banned(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """What may follow depends on the two tokens before, drafted ones too."""
    return np.where((np.arange(len(logits)) + ids[-2:].sum()) % 3 == 0, -np.inf, logits)


DETERMINISTIC: dict[str, dict[str, Any]] = {
    "repetition penalty": {"repetition_penalty": 1.7},
    "frequency and presence penalty": {"frequency_penalty": 1.5, "presence_penalty": 0.7, "allowed_token_ids": LETTERS},
    "logit bias": {"logit_bias": {3: 8.0, 110: -100.0}},
    "min new tokens": {"min_new_tokens": 9, "logit_bias": {TOKENS - 1: 1e3}, "ignore_eos": False},
    "allowed tokens": {"allowed_token_ids": LETTERS},
    "forbidden tokens": {"forbidden_token_ids": range(100, 200)},
    "logits processor": {"logits_processor": every_third_sum_banned},
    "all at once": {
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.4,
        "logit_bias": {3: 2.0},
        "allowed_token_ids": LETTERS,
        "forbidden_token_ids": (256, 257),
        "min_new_tokens": 30,
        "logits_processor": every_third_sum_banned,
        "logprobs": 2,
    },
}


@pytest.mark.parametrize("options", DETERMINISTIC.values(), ids=DETERMINISTIC)
def test_greedy_tokens_are_those_of_plain_decoding(
    engine: Engine, fused: Engine, rounds_run: list[str], options: dict[str, Any]
) -> None:
    params = greedy(**options)
    plain = engine.generate(PROMPT, params, plain=True).finish()
    assert plain.ids != engine.generate(PROMPT, greedy(), plain=True).finish().ids
    for drafter, gamma in WAYS:
        speculative = engine.generate(PROMPT, params, drafter=drafter, gamma=gamma).finish()
        assert (speculative.ids, speculative.finish_reason) == (plain.ids, plain.finish_reason), (drafter, gamma)
        assert speculative.logprobs == plain.logprobs
    assert fused.generate(PROMPT, params, gamma=3).finish().ids == plain.ids
    assert not rounds_run, "a round program that does not serve this was used"


@pytest.mark.parametrize("gamma", GAMMAS)
def test_options_a_round_program_serves_are_served_by_it(
    engine: Engine, fused: Engine, rounds_run: list[str], gamma: int
) -> None:
    """Token for token what the host draws: both use the same uniforms."""
    params = SamplingParams(
        max_new_tokens=LENGTH, temperature=0.7, top_k=20, top_p=0.9, min_p=0.02, seed=3, ignore_eos=True
    )
    host = engine.generate(PROMPT, params, gamma=gamma).finish()
    assert not rounds_run
    assert fused.generate(PROMPT, params, gamma=gamma).finish().ids == host.ids
    assert rounds_run.count(f"drafter.round.gamma{gamma}") > 5


def test_sampled_tokens_obey_masks_and_minimum(engine: Engine) -> None:
    params = SamplingParams(
        max_new_tokens=LENGTH,
        temperature=1.5,
        allowed_token_ids=(*LETTERS, TOKENS - 1),
        forbidden_token_ids=(5, 6),
        min_new_tokens=20,
        logit_bias={TOKENS - 1: 6.0},
    )
    lengths = set()
    for seed in range(12):
        generation = engine.generate(PROMPT, replace(params, seed=seed), gamma=6).finish()
        assert {*generation.ids[:-1]} <= {*LETTERS} - {5, 6}
        assert generation.finish_reason == "eos"
        lengths.add(len(generation.ids))
    assert min(lengths) >= 20
    assert len(lengths) > 1


def spoken(engine: Engine, stops: tuple[str, ...] | str, **way: Any) -> tuple[Generation, list[str]]:
    """A generation of letters that may end at `stops`, and what was streamed of it."""
    pieces: list[str] = []
    params = greedy(allowed_token_ids=LETTERS, stop_strings=stops, logprobs=1)
    return engine.generate(PROMPT, params, streamer=pieces.append, **way).finish(), pieces


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_stop_string_anywhere_in_a_block_cuts_everything_at_one_place(engine: Engine, length: int) -> None:
    whole, _ = spoken(engine, (), plain=True)
    for start in range(3, 40, 3):
        stop = whole.text[start : start + length]
        end = whole.text.index(stop)  # the earliest occurrence ends the text
        plain, _ = spoken(engine, stop, plain=True)
        assert (plain.text, plain.finish_reason) == (whole.text[:end], "stop")
        for drafter, gamma in WAYS:
            speculative, pieces = spoken(engine, stop, drafter=drafter, gamma=gamma)
            assert speculative.text == "".join(pieces) == plain.text
            assert speculative.ids == plain.ids
            assert speculative.ids == whole.ids[: len(plain.ids)]
            assert speculative.logprobs == plain.logprobs
            assert len(speculative.logprobs or ()) == len(plain.ids)


@pytest.mark.parametrize("way", [{"plain": True}, {"gamma": 3}, {"gamma": 6}], ids=str)
def test_of_several_stop_strings_the_one_that_starts_first_wins(engine: Engine, way: dict[str, Any]) -> None:
    whole, _ = spoken(engine, (), **way)
    later, earlier = whole.text[30:36], whole.text[25:33]
    stopped, pieces = spoken(engine, (later, earlier, "never said"), **way)
    assert stopped.text == "".join(pieces) == whole.text[: whole.text.index(earlier)]


@pytest.mark.parametrize("way", [{"plain": True}, {"gamma": 3}, {"gamma": 6}], ids=str)
def test_what_may_begin_a_stop_string_is_held_back(engine: Engine, way: dict[str, Any]) -> None:
    """Half a stop string is said, then something else: the stream stays behind until that is known."""
    whole, _ = spoken(engine, (), **way)
    begun, params = whole.text[20:26], greedy(allowed_token_ids=LETTERS, stop_strings=whole.text[20:26] + "#")
    shown: list[str] = []
    waits = set()
    generation = engine.generate(PROMPT, params, streamer=shown.append, **way)
    for _ in generation:
        text = "".join(shown)
        waits.add(len(text))
        assert not text.endswith(tuple(begun[:n] for n in range(1, len(begun))))
    assert "".join(shown) == generation.text == whole.text
    assert generation.ids == whole.ids
    assert not waits & set(range(21, 26))


def test_every_eos_id_of_the_checkpoint_ends_a_text(tiny: TinyBundles, engine: Engine, tmp_path: Path) -> None:
    """The ids greedy decoding comes to at several places, inside blocks and at their ends, named as EOS one by one."""
    said = engine.generate(PROMPT, greedy(), plain=True).finish().ids
    places = [place for place in range(2, 40) if said.index(said[place]) == place][:12]
    config = decoder_config(num_hidden_layers=3)
    for number, place in enumerate(places[::4]):
        eos = [said[at] for at in places[places.index(place) :]] + [TOKENS - 1]
        model = write_hf_checkpoint(
            tmp_path / f"model{number}",
            config,
            tiny_weights(config),
            tiny_tokenizer_json(TOKENS, [EOS]),
            generation_config={"eos_token_id": eos},
        )
        compiled(model, tmp_path / f"bundle{number}", gammas=GAMMAS)
        ending = Engine.load(tmp_path / f"bundle{number}")
        assert ending.manifest.tokenizer is not None
        assert sorted(ending.manifest.tokenizer.eos_ids) == sorted(eos)
        for drafter, gamma in WAYS:
            ended = ending.generate(PROMPT, SamplingParams(), drafter=drafter, gamma=gamma).finish()
            assert (ended.ids, ended.finish_reason) == (said[: place + 1], "eos"), (drafter, gamma)


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [("reference", 0.0), ("reference,draft=int8", 0.0), ("reference,kv=fp16", 1e-4), ("int8", 1e-4)],
)
def test_logprobs_are_those_of_plain_decoding(tiny: TinyBundles, precision: str, tolerance: float) -> None:
    engine = Engine.load(bundle_of(tiny, precision))
    plain = engine.generate(PROMPT, greedy(logprobs=3), plain=True).finish()
    assert plain.logprobs is not None
    assert len(plain.logprobs) == LENGTH
    for drafter, gamma in WAYS:
        speculative = engine.generate(PROMPT, greedy(logprobs=3), drafter=drafter, gamma=gamma).finish()
        assert speculative.logprobs is not None
        for ours, theirs in zip(speculative.logprobs, plain.logprobs, strict=True):
            assert ours.token == theirs.token
            assert ours.logprob == pytest.approx(theirs.logprob, rel=0, abs=tolerance)
            assert [token for token, _ in ours.top] == [token for token, _ in theirs.top]
            values = [value for _, value in theirs.top]
            assert [value for _, value in ours.top] == pytest.approx(values, rel=0, abs=tolerance)


def test_sampled_logprobs_are_the_verifiers_own(engine: Engine, fused: Engine) -> None:
    """Whatever the request does to the law: the law of the sampled text, fed whole, tells the same."""
    params = SamplingParams(
        max_new_tokens=LENGTH, temperature=0.6, top_p=0.8, repetition_penalty=1.3, logprobs=0, seed=1, ignore_eos=True
    )
    generation = fused.generate(PROMPT, params, gamma=3).finish()
    text = np.array([*PROMPT, *generation.ids])
    logits = engine._models.verifier.feed(text[:-1], 0, LENGTH).astype(np.float64)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = logits[np.arange(LENGTH), generation.ids]
    assert [entry.logprob for entry in generation.logprobs or ()] == pytest.approx(expected, rel=0, abs=1e-5)


@pytest.mark.parametrize("way", [{"plain": True}, {"gamma": 3}, {"drafter": "ngram", "gamma": 6}], ids=str)
def test_samples_seeds_and_their_absence(engine: Engine, way: dict[str, Any]) -> None:
    def texts(**options: Any) -> list[tuple[int, ...]]:
        params = SamplingParams(max_new_tokens=20, temperature=1.0, ignore_eos=True, **options)
        return [tuple(sample.finish().ids) for sample in engine.generate_samples(PROMPT, params, **way)]

    four = texts(n=4, seed=9)
    assert len(set(four)) == 4
    assert texts(n=2, seed=9) == four[:2]
    assert texts(seed=9) == four[:1]
    assert texts(seed=10) != four[:1]
    assert len({*texts(n=2), *texts(n=2)}) == 4


def without_option(bundle: Path, copy: Path, kinds: tuple[str, ...], option: str) -> Path:
    """A copy of `bundle` whose programs of `kinds` do not list `option`."""
    shutil.copytree(bundle, copy)
    manifest = Engine.load(bundle).manifest
    programs = tuple(
        replace(program, options=tuple(o for o in program.options if o != option)) if program.kind in kinds else program
        for program in manifest.programs
    )
    (copy / MANIFEST_NAME).write_text(manifest_json(replace(manifest, programs=programs)), encoding="utf-8")
    return copy


def test_a_round_that_does_not_serve_an_option_is_not_chosen(
    tiny: TinyBundles, fused: Engine, rounds_run: list[str], tmp_path: Path
) -> None:
    edited = Engine.load(without_option(bundle_of(tiny), tmp_path / "copy", ("round",), "top_k"), fused=True)
    params = SamplingParams(max_new_tokens=20, temperature=1.0, top_k=5, seed=1, ignore_eos=True)
    here = edited.generate(PROMPT, params, gamma=3).finish().ids
    assert not rounds_run
    assert fused.generate(PROMPT, params, gamma=3).finish().ids == here
    assert rounds_run


@pytest.mark.parametrize(
    ("kind", "owner", "refused"),
    [
        ("verify", "verifier", [{"plain": True}, {"gamma": 3}, {"drafter": "ngram"}]),
        ("draft", "drafter", [{"gamma": 3}]),
    ],
)
def test_an_option_that_no_program_serves_is_refused(
    tiny: TinyBundles, tmp_path: Path, kind: str, owner: str, refused: list[dict[str, Any]]
) -> None:
    edited = Engine.load(without_option(bundle_of(tiny), tmp_path / "copy", (kind, "round"), "penalties"), fused=True)
    for way in refused:
        for start in (edited.generate, edited.generate_samples):
            ask: Callable[..., object] = start
            with refuses(OptionError, f"for {owner!r} serves penalties", "leave it out"):
                ask(PROMPT, greedy(repetition_penalty=1.2), **way)
    assert len(edited.generate(PROMPT, greedy(max_new_tokens=5)).finish().ids) == 5
    if kind == "draft":
        assert edited.generate(PROMPT, greedy(repetition_penalty=1.2), plain=True).finish().ids
