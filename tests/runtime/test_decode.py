"""The loop, on models whose every cache row matters: speculative greedy decoding is plain greedy decoding."""

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime import Engine, SamplingParams, Stats
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.drafting.none import NoDrafter
from tests.support.switching import SwitchingDrafter
from tests.support.table_programs import TablePrograms, blend, markov, table_engine, with_memory

V = 11
VERIFIER = with_memory(V, seed=0)
DRAFTER = blend(VERIFIER, with_memory(V, seed=1), 0.6)
PROMPT = [1, 2, 3, 1, 2]
GAMMAS = range(1, 9)


def tokens_of(engine: Engine, count: int = 50, **options: object) -> list[int]:
    return list(engine.generate(PROMPT, SamplingParams(max_new_tokens=count), **options))


@pytest.fixture(scope="module")
def plain() -> list[int]:
    engine, _ = table_engine(VERIFIER, vocabulary=V)
    return tokens_of(engine, plain=True)


class Cycle:
    """A controller that never chooses the same gamma twice in a row; 0 is a plain step."""

    def __init__(self) -> None:
        self.chosen = -1

    def choose(self, stats: Stats) -> int:
        self.chosen += 1
        return (self.chosen * 3) % 7


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_speculative_is_plain(plain: list[int], drafter: str, gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    assert tokens_of(engine, drafter=drafter, gamma=gamma) == plain


def test_the_model_drafter_is_worth_testing() -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    stats = engine.generate(PROMPT, SamplingParams(max_new_tokens=50), gamma=4).finish().stats
    accepted = stats.spec_decode_num_accepted_tokens_per_pos
    assert accepted[3] > 0, "no draft was accepted whole"
    assert accepted[0] < stats.spec_decode_num_drafts, "no draft was rejected at once"


@pytest.mark.parametrize("gamma", GAMMAS)
def test_drafters_may_take_turns(plain: list[int], gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    model = engine._models.drafter("draft", SamplingParams(), gamma)
    drafter = SwitchingDrafter([model, NgramDrafter(), NoDrafter(), NoDrafter(), model])
    assert tokens_of(engine, drafter=drafter, gamma=gamma) == plain


@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_gamma_may_change_every_round(plain: list[int], drafter: str) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    assert tokens_of(engine, drafter=drafter, gamma=Cycle()) == plain


@pytest.mark.parametrize("max_width", [2, 3, 5])
def test_prompts_wider_than_a_program_come_in_chunks(plain: list[int], max_width: int) -> None:
    engine, programs = table_engine(VERIFIER, DRAFTER, vocabulary=V, max_width=max_width)
    assert tokens_of(engine, gamma=max_width - 1) == plain
    assert programs.calls[0] == ("verifier", max_width, 0)


@pytest.mark.parametrize("slack", [0, 8])
@pytest.mark.parametrize("gamma", [0, *GAMMAS])
@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_generation_reaches_exactly_the_last_position(gamma: int, slack: int, drafter: str) -> None:
    context = 24
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V, context=context, slack=slack)
    whole, _ = table_engine(VERIFIER, vocabulary=V)
    generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=1000), drafter=drafter, gamma=gamma).finish()
    assert generation.ids == tokens_of(whole, context - len(PROMPT), plain=True)
    assert generation.finish_reason == "length"


@pytest.mark.parametrize("length", [1, 2, 3, 23, 24])
@pytest.mark.parametrize("gamma", [0, 1, 4, 8])
def test_prompts_of_every_length_up_to_the_context(length: int, gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V, context=24)
    whole, _ = table_engine(VERIFIER, vocabulary=V)
    prompt = [i % V for i in range(length)]
    generation = engine.generate(prompt, SamplingParams(), gamma=gamma).finish()
    expected = whole.generate(prompt, SamplingParams(max_new_tokens=24), plain=True).finish().ids
    assert generation.ids == expected[: 24 - length]
    assert generation.finish_reason == "length"


@pytest.mark.parametrize("drafter_context", [1, 2, 7, 12, 30])
@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_beyond_the_drafters_context_steps_are_plain(plain: list[int], drafter_context: int, gamma: int) -> None:
    engine, programs = table_engine(VERIFIER, DRAFTER, vocabulary=V, slack=0, drafter_context=drafter_context)
    assert tokens_of(engine, gamma=gamma) == plain[: 64 - len(PROMPT)]
    written = [position + width for owner, width, position in programs.calls if owner == "draft"]
    assert max(written, default=0) <= drafter_context
    if drafter_context > len(PROMPT):
        assert max(written) == drafter_context, "the drafter stopped before its context ended"


@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("gamma", [1, 4])
def test_max_new_tokens_is_exact(plain: list[int], count: int, gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    assert tokens_of(engine, count, gamma=gamma) == plain[:count]


def cycle_of(length: int) -> NDArray[np.float64]:
    """A law that counts: 0, 1, 2, ... and starts over."""
    return np.roll(np.eye(length), 1, axis=1)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_nothing_follows_an_eos_at_any_place_of_a_block(place: int, drafter: str) -> None:
    counting, prompt = markov(cycle_of(8)), [0, 1, 2, 3, 4, 5, 6, 7, 0]
    engine, _ = table_engine(counting, counting, vocabulary=8, eos_ids=(1 + place,))
    generation = engine.generate(prompt, SamplingParams(), drafter=drafter, gamma=4).finish()
    assert generation.ids == list(range(1, place + 2))
    assert generation.finish_reason == "eos"
    assert generation.stats.emitted_tokens == place + 1
    assert generation.stats.spec_decode_num_accepted_tokens == min(place, 4)


def test_a_rejected_drafted_eos_ends_nothing() -> None:
    always_eos = np.zeros((8, 8))
    always_eos[:, 7] = 1
    engine, _ = table_engine(markov(_padded(cycle_of(7))), markov(always_eos), vocabulary=8, eos_ids=(7,))
    generation = engine.generate([0], SamplingParams(max_new_tokens=20), gamma=3).finish()
    assert generation.ids == [(i + 1) % 7 for i in range(20)]
    assert generation.finish_reason == "length"


def test_an_ignored_eos_is_a_token_like_any_other() -> None:
    counting = markov(cycle_of(8))
    engine, _ = table_engine(counting, counting, vocabulary=8, eos_ids=(3,))
    generation = engine.generate([0], SamplingParams(max_new_tokens=10, ignore_eos=True)).finish()
    assert generation.ids == [(i + 1) % 8 for i in range(10)]


def test_several_eos_ids_and_stop_ids() -> None:
    counting = markov(cycle_of(8))
    engine, _ = table_engine(counting, counting, vocabulary=8, eos_ids=(6, 3))
    assert engine.generate([0], SamplingParams()).finish().ids == [1, 2, 3]
    stopped = engine.generate([0], SamplingParams(stop_token_ids=[2, 5])).finish()
    assert (stopped.ids, stopped.finish_reason) == ([1, 2], "stop")
    ignored = engine.generate([0], SamplingParams(stop_token_ids=[5], ignore_eos=True)).finish()
    assert (ignored.ids, ignored.finish_reason) == ([1, 2, 3, 4, 5], "stop")


@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_min_new_tokens_bans_an_eos_inside_a_block(gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V, eos_ids=(4, 10))
    params = SamplingParams(min_new_tokens=9, max_new_tokens=30)
    plain = engine.generate(PROMPT, params, plain=True).finish()
    assert len(plain.ids) >= 9
    assert not {4, 10} & set(plain.ids[:8])
    assert engine.generate(PROMPT, params, gamma=gamma).finish().ids == plain.ids


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.7},
        {"frequency_penalty": 0.9, "presence_penalty": 0.4},
        {"logit_bias": {3: 2.0, 5: -100.0}},
        {"allowed_token_ids": [1, 2, 3, 5, 8]},
        {"forbidden_token_ids": [10, 7]},
        {"logits_processor": lambda ids, logits: logits - np.float32(3) * (np.arange(V) == ids[-1])},
    ],
)
def test_every_option_is_the_same_under_speculation(options: dict[str, object], gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    params = SamplingParams(max_new_tokens=40, **options)
    plain = engine.generate(PROMPT, params, plain=True).finish()
    assert plain.ids != tokens_of(engine, 40, plain=True)
    for drafter in ("draft", "ngram"):
        assert engine.generate(PROMPT, params, drafter=drafter, gamma=gamma).finish().ids == plain.ids


@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_logprobs_are_those_of_plain_decoding(gamma: int) -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    params = SamplingParams(max_new_tokens=30, logprobs=3)
    plain = engine.generate(PROMPT, params, plain=True).finish()
    speculative = engine.generate(PROMPT, params, gamma=gamma).finish()
    assert speculative.logprobs == plain.logprobs
    assert plain.logprobs is not None
    assert [entry.token for entry in plain.logprobs] == plain.ids
    assert all(entry.top[0] == (entry.token, entry.logprob) for entry in plain.logprobs)


class DriftingPrograms(TablePrograms):
    """Rows that were not written by a prefill from row 0 shift the logits, whatever width wrote them."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self._incremental = np.zeros(200, bool)
        self._prefilled = 0

    def verify(self, tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        prefill = position in (0, self._prefilled)
        end = position + len(tokens)
        self._incremental[position:end] = not prefill
        logits = super().verify(tokens, position, rows)
        self._prefilled = end if prefill and not rows else -1
        drift = [0.4 * np.sin(self._incremental[: end - back].sum()) for back in range(rows - 1, -1, -1)]
        return logits + np.outer(drift, np.arange(V)).astype(np.float32) if rows else logits


@pytest.mark.parametrize("every", [2, 3, 8, 13])
@pytest.mark.parametrize("gamma", [1, 4, 8])
@pytest.mark.parametrize("drafter", ["draft", "ngram"])
def test_full_verification_points_are_those_of_plain_decoding(drafter: str, gamma: int, every: int) -> None:
    def run(**options: object) -> tuple[list[int], Stats]:
        engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V, max_width=9, programs=DriftingPrograms)
        generation = engine.generate(PROMPT, SamplingParams(max_new_tokens=45, verify_every=every), **options).finish()
        return generation.ids, generation.stats

    ids, stats = run(plain=True)
    drafted_ids, drafted_stats = run(drafter=drafter, gamma=gamma)
    assert drafted_ids == ids
    points = [n for n in range(len(PROMPT) + 1, len(PROMPT) + 45) if n % every == 0]
    assert drafted_stats.full_verifications == stats.full_verifications == len(points)
    assert drafted_stats.largest_logit_difference == stats.largest_logit_difference > 0.1
    assert drafted_stats.full_verification_s > 0


def test_full_verification_points_replace_the_cache() -> None:
    engine, _ = table_engine(VERIFIER, vocabulary=V, programs=DriftingPrograms)
    never = tokens_of(engine, 45, plain=True)
    engine, _ = table_engine(VERIFIER, vocabulary=V, programs=DriftingPrograms)
    each = list(engine.generate(PROMPT, SamplingParams(max_new_tokens=45, verify_every=1), plain=True))
    exact, _ = table_engine(VERIFIER, vocabulary=V)
    assert each == tokens_of(exact, 45, plain=True)
    assert never != each


def test_without_drift_a_full_verification_finds_no_difference() -> None:
    engine, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    stats = engine.generate(PROMPT, SamplingParams(max_new_tokens=45, verify_every=16)).finish().stats
    assert stats.full_verifications == 3
    assert stats.largest_logit_difference == 0.0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_in_graph_rounds_give_the_hosts_tokens(temperature: float) -> None:
    params = SamplingParams(max_new_tokens=50, temperature=temperature, seed=5)
    host, _ = table_engine(VERIFIER, DRAFTER, vocabulary=V)
    fused, programs = table_engine(VERIFIER, DRAFTER, vocabulary=V, rounds=(3,))
    rounds = _count_rounds(programs)
    assert fused.generate(PROMPT, params, gamma=3).finish().ids == host.generate(PROMPT, params, gamma=3).finish().ids
    assert len(rounds) > 5


def test_the_last_draft_of_a_fully_accepted_in_graph_round_is_a_hole() -> None:
    engine, programs = table_engine(VERIFIER, VERIFIER, vocabulary=V, rounds=(3,))
    rounds = _count_rounds(programs)
    text = [*PROMPT, *engine.generate(PROMPT, SamplingParams(max_new_tokens=5), gamma=3).finish().ids]
    assert len(rounds) == 1
    assert (
        engine.generate([*text, 0, 1, 2], SamplingParams(max_new_tokens=9), gamma=3).finish().stats.acceptance_rate == 1
    )


def test_in_graph_rounds_are_left_out_where_they_do_not_serve() -> None:
    fused, programs = table_engine(VERIFIER, DRAFTER, vocabulary=V, rounds=(3,))
    rounds = _count_rounds(programs)
    fused.generate(PROMPT, SamplingParams(temperature=1.0, top_p=0.5), gamma=3).finish()
    fused.generate(PROMPT, SamplingParams(logprobs=0), gamma=3).finish()
    fused.generate(PROMPT, SamplingParams(), gamma=2).finish()
    fused.generate(PROMPT, SamplingParams(), gamma=3, drafter="ngram").finish()
    assert rounds == []


def _count_rounds(programs: TablePrograms) -> list[int]:
    rounds: list[int] = []
    original = programs.round

    def counted(*args: object) -> NDArray[np.int64]:
        rounds.append(1)
        return original(*args)

    programs.round = counted
    return rounds


def _padded(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """One more token, that nothing leads to."""
    size = len(table) + 1
    padded = np.zeros((size, size))
    padded[:-1, :-1] = table
    padded[-1, 0] = 1
    return padded
