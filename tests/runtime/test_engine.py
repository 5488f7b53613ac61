import gc
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime import (
    BundleError,
    ContextError,
    Engine,
    Generation,
    OptionError,
    RequestError,
    SamplingParams,
    Stats,
    TokenizerError,
)
from specc_runtime.drafting.none import NoDrafter
from specc_runtime.errors import IntegrityError
from specc_runtime.manifest import TokenizerInfo
from specc_runtime.text import TextCodec
from tests.support.table_programs import LogitsOf, blend, table_engine, with_memory
from tests.support.tokenizer_files import EOS, byte_level_tokenizer

V = 9
VERIFIER = with_memory(V, seed=0)
DRAFTER = blend(VERIFIER, with_memory(V, seed=1), 0.6)
PROMPT = [1, 2, 3, 1, 2]


@pytest.fixture
def engine() -> Engine:
    return table_engine(VERIFIER, DRAFTER, vocabulary=V)[0]


# Turns: caches are kept.


@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_the_next_turn_prefills_only_what_is_new(drafter: str) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V, context=200)
    params = SamplingParams(max_new_tokens=20)
    text = list(PROMPT)
    for turn in range(4):
        generation = engine.generate(text, params, drafter=drafter, gamma=3).finish()
        fresh, _ = table_engine(VERIFIER, vocabulary=V, context=200)
        assert generation.ids == fresh.generate(text, params, plain=True).finish().ids
        new = len(PROMPT) if turn == 0 else 3
        # Tokens emitted last turn but never fed are new too: for the verifier the last one; for the drafter that one,
        # the last of a draft accepted whole, and a plain step before the end; but its first step takes two anyway.
        assert new <= generation.stats.verifier_prefilled_tokens <= new + 1
        if drafter == "draft":
            assert new - 1 <= generation.stats.drafter_prefilled_tokens <= new + 2
        text = [*text, *generation.ids, 4, turn, 0]


def test_what_is_forgotten_is_prefilled_again(engine: Engine) -> None:
    params = SamplingParams(max_new_tokens=6)
    first = engine.generate(PROMPT, params, gamma=3).finish()
    engine.forget()
    again = engine.generate(PROMPT, params, gamma=3).finish()
    assert again.ids == first.ids
    assert again.stats.verifier_prefilled_tokens == len(PROMPT)
    assert again.stats.drafter_prefilled_tokens == first.stats.drafter_prefilled_tokens > 0
    running = engine.generate(PROMPT, params)
    next(running)
    with pytest.raises(RequestError, match="before forgetting"):
        engine.forget()


def test_another_prompt_keeps_what_it_shares(engine: Engine) -> None:
    engine.generate([1, 2, 3, 4, 5, 6], SamplingParams(max_new_tokens=5)).finish()
    stats = engine.generate([1, 2, 3, 8, 8, 8], SamplingParams(max_new_tokens=5)).finish().stats
    assert stats.verifier_prefilled_tokens == 3
    assert stats.drafter_prefilled_tokens <= 2


def test_the_same_prompt_again_feeds_one_token(engine: Engine) -> None:
    first = engine.generate(PROMPT, SamplingParams(max_new_tokens=9)).finish()
    again = engine.generate(PROMPT, SamplingParams(max_new_tokens=9)).finish()
    assert again.ids == first.ids
    assert (first.stats.verifier_prefilled_tokens, again.stats.verifier_prefilled_tokens) == (len(PROMPT), 1)
    assert again.stats.drafter_prefilled_tokens == 0


# One generation at a time.


def test_a_second_generation_is_refused_while_one_runs(engine: Engine) -> None:
    first = engine.generate(PROMPT)
    next(first)
    second = engine.generate(PROMPT)
    with pytest.raises(RequestError, match="another generation is running"):
        next(second)
    first.finish()
    assert engine.generate(PROMPT).finish().ids == first.ids


def test_a_closed_generation_frees_the_engine(engine: Engine) -> None:
    first = engine.generate(PROMPT)
    token = next(first)
    first.close()
    assert list(first) == []
    assert (first.ids[0], first.finish_reason) == (token, None)
    assert next(engine.generate(PROMPT)) == token


def test_a_dropped_generation_frees_the_engine_at_once(engine: Engine) -> None:
    gc.disable()
    try:
        for _ in engine.generate(PROMPT):
            break
        engine.generate(PROMPT).finish()
    finally:
        gc.enable()


def test_two_that_were_not_started_do_not_disturb_each_other(engine: Engine) -> None:
    first, second = engine.generate(PROMPT), engine.generate(PROMPT)
    assert second.finish().ids == first.finish().ids


def test_another_thread_is_refused_too(engine: Engine) -> None:
    first = engine.generate(PROMPT)
    next(first)
    errors: list[RequestError] = []

    def run() -> None:
        try:
            engine.generate(PROMPT).finish()
        except RequestError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_a_failing_engine_frees_itself_and_trusts_no_half_written_row() -> None:
    engine, programs = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    expected = engine.generate(PROMPT, SamplingParams(max_new_tokens=20)).finish().ids
    original, calls = programs.verify, []

    def failing(tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        calls.append(position)
        if len(calls) == 4:
            original(tokens + 1 - 2 * (tokens == V - 1), position, rows)
            raise RuntimeError("engine")
        return original(tokens, position, rows)

    engine._models.verifier._feed = failing
    with pytest.raises(RuntimeError, match="engine"):
        engine.generate(PROMPT, SamplingParams(max_new_tokens=20)).finish()
    assert engine.generate(PROMPT, SamplingParams(max_new_tokens=20)).finish().ids == expected


# What may be asked.


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        ([], RequestError, "at least one token id"),
        ([[1, 2]], RequestError, "whole numbers"),
        ([1, V], RequestError, "holds ids 1 ... 9: the bundle's are 0 ... 8"),
        ([-1, 2], RequestError, "holds ids -1 ... 2"),
        ([1] * 65, ContextError, "has 65 tokens, the bundle's context is 64: .*--context"),
    ],
)
def test_prompts_that_can_not_be_served(
    engine: Engine, prompt: list[int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        engine.generate(prompt)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 100}, "gamma is 100: this bundle's programs verify 0 to 15 drafted tokens"),
        ({"gamma": -1}, "gamma is -1"),
        ({"drafter": "drft"}, "'drft': this bundle has draft, ngram"),
        ({"params": SamplingParams(n=2)}, "generate_samples"),
        ({"params": SamplingParams(stop_token_ids=[V])}, "stop_token_ids holds id 9"),
        ({"params": SamplingParams(logprobs=V + 1)}, "logprobs is 10"),
    ],
)
def test_options_that_can_not_be_served(engine: Engine, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        engine.generate(PROMPT, **options)


def test_samples_are_checked_when_they_are_asked_for(engine: Engine) -> None:
    with pytest.raises(RequestError, match="at least one token id"):
        engine.generate_samples([], SamplingParams(n=2))


def test_what_is_left_of_a_sample_is_generated_before_the_next(engine: Engine) -> None:
    samples = engine.generate_samples(PROMPT, SamplingParams(max_new_tokens=8, n=2))
    first = next(samples)
    next(first)
    second = next(samples).finish()
    assert first.ids == second.ids
    assert len(first.ids) == 8


def test_prompts_may_be_arrays_and_a_drafter_an_object(engine: Engine) -> None:
    expected = engine.generate(PROMPT, plain=True).finish().ids
    generation = engine.generate(np.array(PROMPT, np.int32), drafter=NoDrafter()).finish()
    assert generation.ids == expected
    assert generation.stats.spec_decode_num_drafts == 0


def test_the_bundles_gamma_and_drafter_are_the_default(engine: Engine) -> None:
    stats = engine.generate(PROMPT).finish().stats
    assert len(stats.spec_decode_num_accepted_tokens_per_pos) == engine.manifest.gamma == 4
    assert stats.draft_s > 0
    assert engine.generate(PROMPT, plain=True).finish().stats.spec_decode_num_drafts == 0
    assert engine.generate(PROMPT, gamma=0).finish().stats.spec_decode_num_drafts == 0


def test_times_add_up(engine: Engine) -> None:
    stats: Stats = engine.generate(PROMPT, SamplingParams(max_new_tokens=30)).finish().stats
    assert min(stats.prefill_s, stats.draft_s, stats.verify_s, stats.host_s) > 0
    assert stats.emitted_tokens == 30


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json: missing"):
        Engine.load(tmp_path)


@pytest.mark.parametrize(
    "ids", [[2, 1], [0, 1, 1], [0, V], [-1, 2], [[0, 1]], [0.0, 1.0], np.array(["a", "b"]), np.array([{}, 1], object)]
)
def test_a_damaged_id_map_is_named(tmp_path: Path, ids: object) -> None:
    path = tmp_path / "ids.npy"
    np.save(path, np.asarray(ids), allow_pickle=True)
    with pytest.raises((IntegrityError, ValueError), match=r"ids.npy: |Object arrays"):
        table_engine(VERIFIER, DRAFTER, vocabulary=V, head_ids=path)


# Text.


class Script:
    """A model that says what it is told to say, token by token, whatever came before."""

    def __init__(self, prompt: list[int], script: list[int], vocabulary: int) -> None:
        self._text, self._vocabulary = [*prompt, *script], vocabulary

    def __call__(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        law = np.zeros(self._vocabulary, np.float32)
        law[self._text[len(tokens) % len(self._text)]] = 9
        return law


def speaking_engine(folder: Path, text: str) -> tuple[Engine, str]:
    """An engine that says `text` after the prompt it comes with; its drafter knows every word of it."""
    (folder / "tokenizer.json").write_text(byte_level_tokenizer(), encoding="utf-8")
    codec = TextCodec(folder / "tokenizer.json", TokenizerInfo("tokenizer.json", token_count=257))
    prompt = "Say it:"
    script: LogitsOf = Script(codec.encode(prompt), codec.encode(text), 257)
    engine, _ = table_engine(script, script, vocabulary=257, context=400, eos_ids=tuple(codec.encode(EOS)))
    engine.__dict__["codec"] = codec
    return engine, prompt


@pytest.mark.parametrize("gamma", [0, 1, 3, 4, 8])
@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (("STOP",), "One, two, "),
        ("STOP", "One, two, "),
        (("three", "two"), "One, "),
        (("STOP three", "OP"), "One, two, "),
        (("STOP thirty", "OP"), "One, two, ST"),
        (("never",), "One, two, STOP three€."),
        (("€",), "One, two, STOP three"),
        ((".",), "One, two, STOP three€"),
    ],
)
def test_stop_strings_cut_text_ids_logprobs_and_stream_alike(
    tmp_path: Path, stops: tuple[str, ...], expected: str, gamma: int
) -> None:
    said = "One, two, STOP three€."
    engine, prompt = speaking_engine(tmp_path, said + EOS)
    shown: list[str] = []
    params = SamplingParams(max_new_tokens=100, stop_strings=stops, logprobs=0)
    generation = engine.generate(prompt, params, gamma=gamma, streamer=shown.append)
    given = list(generation)
    assert generation.text == "".join(shown) == expected
    assert given == generation.ids
    assert engine.codec.decode(given) == expected
    assert generation.logprobs is not None
    assert [entry.token for entry in generation.logprobs] == given
    assert generation.finish_reason == ("eos" if expected == said else "stop")
    assert generation.stats.emitted_tokens == len(given)


def test_a_streamer_sees_whole_characters(tmp_path: Path) -> None:
    engine, prompt = speaking_engine(tmp_path, "aß€🙂" + EOS)
    shown: list[str] = []
    generation = engine.generate(prompt, streamer=shown.append).finish()
    assert shown == ["a", "ß", "€", "🙂"]
    assert generation.text == "aß€🙂"
    assert generation.finish_reason == "eos"
    assert engine.codec.decode(generation.ids[:-1]) == "aß€🙂"


def test_a_streamer_sees_each_sample_in_turn(tmp_path: Path) -> None:
    engine, prompt = speaking_engine(tmp_path, "aß€🙂" + EOS)
    shown: list[str] = []
    for generation in engine.generate_samples(prompt, SamplingParams(n=2), streamer=shown.append):
        generation.finish()
        assert "".join(shown) == generation.text == "aß€🙂"
        shown.clear()


def test_text_needs_no_streamer_and_may_be_read_half_way(tmp_path: Path) -> None:
    engine, prompt = speaking_engine(tmp_path, "abcdef" + EOS)
    generation: Generation = engine.generate(prompt, gamma=2)
    next(generation)
    assert generation.text == "a"
    assert generation.finish().text == "abcdef"


def test_a_bundle_without_a_tokenizer_takes_and_gives_ids() -> None:
    engine, _ = table_engine(VERIFIER, vocabulary=V)
    engine.bundle = replace(engine.bundle, manifest=replace(engine.manifest, tokenizer=None))
    generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=3)).finish()
    assert len(generation.ids) == 3
    for use in (lambda: generation.text, lambda: engine.generate("text"), lambda: engine.codec):
        with pytest.raises(TokenizerError, match="has no tokenizer"):
            use()
