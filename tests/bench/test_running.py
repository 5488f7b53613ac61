from dataclasses import replace
from pathlib import Path

import pytest

from specc.bench.benchmarking import run_benchmark
from specc.bench.conversations import Conversations
from specc.bench.options import BenchOptions, chosen_drafter, chosen_gamma
from specc.bench.questions import Question
from specc.bench.running import Runner
from specc.bench.samples import PLAIN, SPECULATIVE, sampled
from specc.errors import BenchError
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle
from specc_runtime.manifest import TokenizerInfo
from specc_runtime.text import TextCodec
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.manifests import small_manifest
from tests.support.refusals import refuses
from tests.support.table_programs import TablePrograms, blend, table_engine, with_memory

VOCABULARY, EOS = 258, 257
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
QUESTIONS = [Question("1", "qa", ("what is it", "and why")), Question("2", "maths", ("two and two",))]
PARAMS = SamplingParams(max_new_tokens=16, ignore_eos=True, seed=0)


def engine_of(folder: Path, template: str | None = TEMPLATE, context: int = 400) -> tuple[Engine, TablePrograms]:
    """Models of tables behind a tokenizer of bytes."""
    (folder / "tokenizer.json").write_text(tiny_tokenizer_json(VOCABULARY, ["<s>", "</s>"]))
    verifier = with_memory(VOCABULARY, seed=3, sharpness=9)
    drafter = blend(verifier, with_memory(VOCABULARY, seed=4, sharpness=9), 0.8)
    engine, table = table_engine(verifier, drafter, vocabulary=VOCABULARY, context=context, max_width=64)
    info = TokenizerInfo("tokenizer.json", VOCABULARY, bos_id=256, eos_ids=(EOS,), chat_template=template)
    return Engine(Bundle(folder, replace(engine.manifest, tokenizer=info)), table), table


def options(**changes: object) -> BenchOptions:
    return replace(BenchOptions(gamma=3, drafter="draft", sampling=PARAMS, turns=2, cost_s=30.0), **changes)


def runner(engine: Engine, asked: BenchOptions) -> Runner:
    return Runner(engine, asked, Conversations(engine, asked.chat))


def test_a_sample_is_the_generation_and_its_rounds(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path)
    sample = sampled(engine.generate([1, 2, 3], PARAMS, gamma=3))
    assert len(sample.ids) == 16 == sum(r.emitted for r in sample.rounds)
    assert len(sample.steps) == len(sample.rounds) - 1
    assert (sample.prompt_tokens, sample.prefilled) == (3, 3)
    assert sample.token_s == pytest.approx(sample.rest_s / 15, rel=1e-12)
    assert sampled(engine.generate([1, 2], SamplingParams(max_new_tokens=1))).token_s is None


def test_both_sides_answer_every_turn_alike(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path)
    asked = runner(engine, options())
    trials = [trial for question in QUESTIONS for trial in asked.ask(question)]
    assert [(trial.question, trial.turn) for trial in trials] == [("1", 1), ("1", 2), ("2", 1)]
    for trial in trials:
        assert trial.samples[SPECULATIVE].ids == trial.samples[PLAIN].ids
        assert sum(r.drafted for r in trial.samples[PLAIN].rounds) == 0
        assert sum(r.drafted for r in trial.samples[SPECULATIVE].rounds) > 0


def test_the_other_side_begins_the_next_question(tmp_path: Path) -> None:
    engine, table = engine_of(tmp_path)
    asked = runner(engine, options(turns=1))
    calls_before_the_first_draft = []
    for question in QUESTIONS:
        table.calls.clear()
        list(asked.ask(question))
        calls_before_the_first_draft.append([owner for owner, _, _ in table.calls].index("draft"))
    assert calls_before_the_first_draft[0] < PARAMS.max_new_tokens <= calls_before_the_first_draft[1]


def test_every_side_prefills_its_first_prompt_whole_and_the_second_from_where_it_is_new(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path)
    first, second = runner(engine, options()).ask(QUESTIONS[0])
    for side in (SPECULATIVE, PLAIN):
        assert first.samples[side].prefilled == len(first.prompt)
        assert second.samples[side].prefilled <= len(second.prompt) - len(first.prompt) + 1


def test_conversations_hold_the_answers(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path)
    codec = TextCodec(tmp_path / "tokenizer.json", engine.manifest.tokenizer)  # type: ignore[arg-type]
    answer = codec.encode("because")
    chat = Conversations(engine, None)
    assert chat.chat
    said = codec.decode(chat.prompt(("what", "and why"), [answer]))
    assert said == "<user>what<assistant>because<user>and why<assistant>"
    bare = Conversations(engine, False)
    assert codec.decode(bare.prompt(("what", "and why"), [answer])) == "what\n\nbecause\n\nand why"
    assert not Conversations(engine_of(tmp_path, template=None)[0], None).chat


def test_prompts_beyond_the_context_are_left_out(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path, context=60)
    asked = runner(engine, options())
    assert list(asked.ask(Question("long", "qa", ("a" * 50,)))) == []
    assert asked.skipped == ["long"]
    assert len(list(asked.ask(Question("short", "qa", ("a",))))) == 1


def test_a_whole_benchmark(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path)
    report = run_benchmark(engine, QUESTIONS, options())
    assert list(report.categories) == ["qa", "maths"]
    assert list(report.turns) == [1, 2]
    assert (report.identity.compared, report.identity.identical) == (3, 3)
    assert report.costs is not None
    assert len(report.costs.round_s) == 4
    assert report.overall.predicted is not None
    assert report.peak_bytes > 1 << 20
    assert report.settings["gamma"] == 3
    assert report.machine["processor"]


def test_sampling_is_measured_too(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path)
    sampling = replace(PARAMS, temperature=1.0)
    report = run_benchmark(engine, QUESTIONS, options(sampling=sampling, gamma="auto", turns=1))
    assert report.overall.tokens == 32


def test_nothing_that_fits_is_an_error(tmp_path: Path) -> None:
    engine, _ = engine_of(tmp_path, context=40)
    with refuses(BenchError, "none of 1 fits the context"):
        run_benchmark(engine, [Question("1", "qa", ("a" * 200,))], options(cost_s=0.0))


def test_what_is_not_asked_for_is_the_bundles() -> None:
    manifest = small_manifest()
    assert chosen_gamma(manifest, None) == 4
    assert chosen_gamma(replace(manifest, gamma=0), None) == "auto"
    assert chosen_gamma(manifest, 0) == 0
    assert chosen_gamma(manifest, "auto") == "auto"
    assert chosen_drafter(manifest, None) == "draft"
    assert chosen_drafter(manifest, "ngram") == "ngram"
