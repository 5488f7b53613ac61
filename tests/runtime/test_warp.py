"""Warping against a plain reference: float64, sorting everything, one row at a time."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime import exponential
from specc_runtime.errors import OptionError
from specc_runtime.history import TokenHistory
from specc_runtime.law_rows import LawRows
from specc_runtime.params import SamplingParams
from specc_runtime.warp import Warper

EOS = (3,)


def warper(params: SamplingParams, vocab_rows: int, **options: Any) -> Warper:
    return Warper(
        params, **{"vocab_rows": vocab_rows, "token_count": vocab_rows, "eos_ids": EOS, "max_rows": 8} | options
    )


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def reference_logits(row: NDArray[np.float32], prompt: list[int], output: list[int], params: SamplingParams) -> Any:
    logits = row.astype(np.float64)
    for token, bias in params.logit_bias.items():
        logits[token] += bias
    for token in set(prompt) | set(output):
        logits[token] *= 1 / params.repetition_penalty if logits[token] > 0 else params.repetition_penalty
    for token in set(output):
        logits[token] -= params.frequency_penalty * output.count(token) + params.presence_penalty
    allowed = set(range(len(row)) if params.allowed_token_ids is None else params.allowed_token_ids)
    banned = set(range(len(row))) - allowed | set(params.forbidden_token_ids)
    if len(output) < params.min_new_tokens:
        banned |= params.end_ids(EOS)
    logits[sorted(banned)] = -np.inf
    return logits


def reference_law(logits: NDArray[np.float64], params: SamplingParams) -> NDArray[np.float64]:
    logits = logits / params.temperature
    if params.top_k:
        logits = np.where(logits >= np.sort(logits)[::-1][min(params.top_k, len(logits)) - 1], logits, -np.inf)
    law = softmax(logits)
    descending = np.sort(law)[::-1]
    last = min(int(np.searchsorted(np.cumsum(descending), params.top_p)), len(law) - 1)
    law = np.where(law >= descending[last], law, 0)
    law = np.where(law >= params.min_p * law.max(), law, 0)
    return law / law.sum()


def random_options(rng: np.random.Generator, vocab_rows: int) -> dict[str, Any]:
    """About half of the options set, each at random."""
    ids = rng.permutation(vocab_rows).tolist()
    options: dict[str, Any] = {
        "top_k": int(rng.integers(1, 80)),
        "top_p": float(rng.uniform(0.2, 1)),
        "min_p": float(rng.uniform(0, 0.3)),
        "repetition_penalty": float(rng.uniform(0.7, 2)),
        "frequency_penalty": float(rng.uniform(-1, 1)),
        "presence_penalty": float(rng.uniform(-1, 1)),
        "logit_bias": {ids[0]: 4.0, ids[1]: -3.0, 1: 0.5},
        "min_new_tokens": int(rng.integers(1, 6)),
        "allowed_token_ids": ids[: vocab_rows // 2],
        "forbidden_token_ids": ids[2:8],
        "stop_token_ids": (ids[9],),
    }
    chosen = {name: value for name, value in options.items() if rng.random() < 0.5}
    return {"temperature": float(rng.choice([0.3, 0.8, 1.0, 2.0]))} | chosen


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("vocab_rows", [40, 3000])
def test_random_options_equal_the_reference(seed: int, vocab_rows: int) -> None:
    rng = np.random.default_rng([seed, vocab_rows])
    params = SamplingParams(**random_options(rng, vocab_rows))
    logits = (rng.standard_normal((4, vocab_rows)) * rng.choice([1, 5]) + rng.choice([-90, 0, 90])).astype(np.float32)
    prompt, output, drafted = (rng.integers(0, vocab_rows, n).tolist() for n in (6, 2, 3))
    history = TokenHistory(prompt, vocab_rows)
    history.extend(output)
    laws = warper(params, vocab_rows).laws(logits, history, drafted)
    for i, law in enumerate(laws):
        expected = reference_law(reference_logits(logits[i], prompt, output + drafted[:i], params), params)
        assert np.array_equal(law > 1e-12, expected > 1e-12)
        np.testing.assert_allclose(law, expected, rtol=2e-4, atol=1e-7)
        assert law.sum(dtype=np.float64) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("option", ["top_k", "top_p", "min_p"])
def test_ties_at_a_threshold_are_all_kept(option: str) -> None:
    logits = np.log(np.array([[0.4, 0.15, 0.15, 0.15, 0.1, 0.05]], dtype=np.float32))
    params = SamplingParams(temperature=1, **{option: {"top_k": 2, "top_p": 0.5, "min_p": 0.37}[option]})
    law = warper(params, 6).laws(logits, TokenHistory([], 6), [])[0]
    assert np.flatnonzero(law).tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(law[:4], np.array([0.4, 0.15, 0.15, 0.15]) / 0.85, rtol=1e-6)


STEPWISE = [
    {"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": -0.3},
    {"temperature": 1.0, "min_new_tokens": 5, "logit_bias": {3: 9.0}},
    {"temperature": 1.2, "logits_processor": lambda ids, logits: np.roll(logits, int(ids[-1]))},
    {"temperature": 0.7, "top_k": 5, "allowed_token_ids": range(2, 30), "forbidden_token_ids": (7,)},
]


@pytest.mark.parametrize("options", STEPWISE)
def test_each_row_is_bit_equal_to_plain_decoding(options: dict[str, Any]) -> None:
    """Row i of a block, and a drafter's i-th single row, see what plain decoding sees once the draft is committed."""
    rng = np.random.default_rng(2)
    params, drafted = SamplingParams(**options), [5, 5, 3, 9]
    logits = (rng.standard_normal((5, 40)) * 3).astype(np.float32)
    history = TokenHistory([5, 8, 1], 40)
    history.extend([8, 2])
    block = warper(params, 40).laws(logits, history, drafted).copy()
    likeliest = warper(params, 40).greedy(logits, history, drafted)
    plain = TokenHistory([5, 8, 1], 40)
    plain.extend([8, 2])
    for i in range(5):
        alone = warper(params, 40).laws(logits[i : i + 1], history, drafted[:i])[0].copy()
        stepped = warper(params, 40).laws(logits[i : i + 1], plain, [])[0]
        assert np.array_equal(block[i], stepped)
        assert np.array_equal(alone, stepped)
        assert likeliest[i] == warper(params, 40).greedy(logits[i : i + 1], plain, [])[0]
        plain.extend(drafted[i : i + 1])


def test_a_rejected_draft_leaves_no_trace() -> None:
    params = SamplingParams(temperature=1, frequency_penalty=1, repetition_penalty=1.5)
    logits = np.random.default_rng(4).standard_normal((3, 20)).astype(np.float32)
    history, used = TokenHistory([1, 2], 20), warper(params, 20)
    used.laws(logits, history, [7, 7])
    history.extend([4])
    after = used.laws(logits[:1], history, []).copy()
    fresh = TokenHistory([1, 2], 20)
    fresh.extend([4])
    assert np.array_equal(after, warper(params, 20).laws(logits[:1], fresh, []))


def test_greedy_laws_are_one_hot_at_the_greedy_ids() -> None:
    logits = np.random.default_rng(5).standard_normal((4, 50)).astype(np.float32)
    history, drafted = TokenHistory([1], 50), [int(logits[0].argmax()), 4, 4]
    greedy = warper(SamplingParams(repetition_penalty=3), 50)
    ids = greedy.greedy(logits, history, drafted)
    laws = greedy.laws(logits, history, drafted)
    assert np.array_equal(laws, np.eye(50, dtype=np.float32)[ids])
    assert ids[0] != ids[1] or logits[1].argmax() != logits[0].argmax()


def test_the_first_of_equal_logits_is_the_greedy_one() -> None:
    logits = np.array([[1, 7, 7, 0]], dtype=np.float32)
    assert warper(SamplingParams(), 4).greedy(logits, TokenHistory([], 4), []) == [1]


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.9}, {"logit_bias": {9: 99}}]
)
def test_vocabulary_pads_are_never_emitted(options: dict[str, Any]) -> None:
    logits = np.zeros((1, 10), dtype=np.float32)
    logits[0, 8:] = 50
    padded = warper(SamplingParams(**options), 10, token_count=8)
    assert padded.laws(logits, TokenHistory([], 10), [])[0, 8:].tolist() == [0, 0]
    assert padded.greedy(logits, TokenHistory([], 10), [])[0] < 8


def test_logits_of_other_padding_need_no_ids() -> None:
    logits = np.random.default_rng(6).standard_normal((1, 14)).astype(np.float32)
    params = SamplingParams(temperature=1)
    narrow = warper(params, 10, token_count=8).laws(np.ascontiguousarray(logits[:, :10]), TokenHistory([], 10), [])
    wide = warper(params, 10, token_count=8).laws(logits, TokenHistory([], 10), [])
    assert wide.shape == (1, 10)
    assert np.array_equal(narrow, wide)


def test_a_processor_cannot_lift_a_ban() -> None:
    def lift(ids: NDArray[np.int64], logits: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.ones_like(logits)

    params = SamplingParams(temperature=1, forbidden_token_ids=(2,), min_new_tokens=4, logits_processor=lift)
    law = warper(params, 10, token_count=8).laws(np.zeros((1, 10), np.float32), TokenHistory([0], 10), [])[0]
    assert np.flatnonzero(law).tolist() == [0, 1, 4, 5, 6, 7]


def test_a_processor_sees_the_ids_so_far_and_a_whole_row() -> None:
    seen: list[tuple[list[int], int]] = []

    def record(ids: NDArray[np.int64], logits: NDArray[np.float32]) -> NDArray[np.float32]:
        seen.append((ids.tolist(), len(logits)))
        logits += 5
        return logits

    logits = np.zeros((3, 10), dtype=np.float32)
    history = TokenHistory([1, 2], 10)
    warper(SamplingParams(logits_processor=record), 10, token_count=8).greedy(logits, history, [6, 7])
    assert seen == [([1, 2], 10), ([1, 2, 6], 10), ([1, 2, 6, 7], 10)]
    assert not logits.any()


@pytest.mark.parametrize(
    "result", [np.zeros(9, np.float32), np.zeros((1, 10), np.float32), np.zeros(10, np.int64), None], ids=str
)
def test_a_processors_result_is_checked(result: Any) -> None:
    params = SamplingParams(logits_processor=lambda ids, logits: result)
    with pytest.raises(OptionError, match=r"logits_processor returned .* it returns floating-point logits \[10\]"):
        warper(params, 10).greedy(np.zeros((1, 10), np.float32), TokenHistory([], 10), [])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(value: float, temperature: float) -> None:
    logits = np.zeros((1, 10), dtype=np.float32)
    logits[0, 4] = value
    refusing = warper(SamplingParams(temperature=temperature), 10)
    with pytest.raises(OptionError, match="not finite"):
        refusing.laws(logits, TokenHistory([], 10), [])
    with pytest.raises(OptionError, match="not finite"):
        refusing.greedy(logits, TokenHistory([], 10), [])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_with_every_token_banned_is_refused(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, allowed_token_ids=EOS, min_new_tokens=1)
    with pytest.raises(OptionError, match="every token is banned"):
        warper(params, 10).laws(np.zeros((1, 10), np.float32), TokenHistory([], 10), [])


@pytest.mark.parametrize("temperature", [1e-5, 1e5])
@pytest.mark.parametrize("level", [-3e4, 0.0, 3e4])
def test_extreme_temperatures_stay_in_range(temperature: float, level: float) -> None:
    logits = (np.arange(100, dtype=np.float32)[None] + np.float32(level)) / 2
    law = warper(SamplingParams(temperature=temperature), 100).laws(logits, TokenHistory([], 100), [])[0]
    expected = softmax(logits[0].astype(np.float64) / temperature)
    np.testing.assert_allclose(law, expected, atol=1e-6, rtol=0)


IDS = np.array([0, 2, 3, 7, 11, 12, 19, 25])
TRIMMED = [
    {"temperature": 0.9},
    {"temperature": 0.9, "top_k": 3, "top_p": 0.8},
    {"temperature": 1.0, "logit_bias": {7: 2.0, 8: 9.0}, "forbidden_token_ids": (2, 4)},
    {"temperature": 1.0, "allowed_token_ids": (3, 4, 7, 19), "min_new_tokens": 9},
    {"temperature": 1.0, "repetition_penalty": 1.4, "frequency_penalty": 0.5},
    {"temperature": 1.0, "logits_processor": lambda ids, logits: logits + np.cos(np.arange(30))},
    {},
]


@pytest.mark.parametrize("options", TRIMMED)
def test_a_trimmed_head_is_warped_like_the_whole_row(options: dict[str, Any]) -> None:
    params = SamplingParams(**options)
    logits = np.random.default_rng(8).standard_normal((2, len(IDS))).astype(np.float32)
    whole = np.full((2, 30), -np.inf, dtype=np.float32)
    whole[:, IDS] = logits
    history = TokenHistory([7, 4, 2], 30)
    history.extend([25, 5])
    expected = warper(params, 30, token_count=24).laws(whole, history, [11])
    trimmed = warper(params, 30, token_count=24, ids=IDS)
    laws = trimmed.laws(logits, history, [11])
    np.testing.assert_allclose(laws, expected[:, IDS], rtol=1e-5, atol=1e-7)
    assert laws[:, -1].tolist() == [0, 0]
    ids = trimmed.greedy(logits, history, [11])
    assert ids == warper(params, 30, token_count=24).greedy(whole, history, [11])
    assert [trimmed.token_id(column) for column in range(len(IDS))] == IDS.tolist()


def test_a_head_trimmed_to_banned_tokens_still_drafts() -> None:
    params = SamplingParams(temperature=1, allowed_token_ids=(4, 5))
    logits = np.random.default_rng(9).standard_normal((1, len(IDS))).astype(np.float32)
    law = warper(params, 30, ids=IDS).laws(logits, TokenHistory([], 30), [])[0]
    np.testing.assert_allclose(law, softmax(logits[0].astype(np.float64)), rtol=1e-5)


def test_laws_are_written_where_asked() -> None:
    logits = np.random.default_rng(10).standard_normal((1, 12)).astype(np.float32)
    out = LawRows(3, 12)
    used = warper(SamplingParams(temperature=1), 12, token_count=10)
    laws = used.laws(logits, TokenHistory([], 12), [], out=out, first=1)
    assert np.array_equal(out.values[1], used.laws(logits, TokenHistory([], 12), [])[0])
    assert np.shares_memory(laws, out.values[1])
    assert (out.values[[0, 2]] == 0).all()


OPTIONS_BY_TURN = (
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.8, "top_p": 0.6},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 1.3, "min_p": 0.2},
    {"temperature": 0.7, "top_k": 5, "top_p": 0.7, "min_p": 0.1},
)


@pytest.mark.parametrize("after", OPTIONS_BY_TURN)
@pytest.mark.parametrize("before", OPTIONS_BY_TURN)
def test_a_row_written_again_holds_nothing_of_the_law_before(before: dict[str, Any], after: dict[str, Any]) -> None:
    rng = np.random.default_rng(11)
    first, second = (2 * rng.standard_normal((2, 40)).astype(np.float32) for _ in range(2))
    rows, history = LawRows(2, 40), TokenHistory([], 40)
    warper(SamplingParams(**before), 40, token_count=38).laws(first, history, [1], out=rows)
    written = warper(SamplingParams(**after), 40, token_count=38).laws(second, history, [1], out=rows)
    assert np.array_equal(written, warper(SamplingParams(**after), 40, token_count=38).laws(second, history, [1]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("options", OPTIONS_BY_TURN)
def test_logits_that_are_not_finite_are_refused_under_every_option(options: dict[str, Any], bad: float) -> None:
    logits = np.zeros((1, 40), np.float32)
    logits[0, 7] = bad
    with pytest.raises(OptionError, match="not finite"):
        warper(SamplingParams(**options), 40).laws(logits, TokenHistory([], 40), [])


@pytest.mark.parametrize("base_2", [True, False])
@pytest.mark.parametrize("offset", [-3e4, -80.0, 0.0, 80.0, 3e4])
@pytest.mark.parametrize("temperature", [0.05, 1.0, 7.0])
def test_both_exponentials_give_the_softmax(
    monkeypatch: pytest.MonkeyPatch, base_2: bool, offset: float, temperature: float
) -> None:
    monkeypatch.setattr(exponential, "_BASE_2", base_2)
    logits = (np.random.default_rng(12).standard_normal((1, 300)) + offset).astype(np.float32)
    law = warper(SamplingParams(temperature=temperature), 300).laws(logits, TokenHistory([], 300), [])[0]
    np.testing.assert_allclose(law, softmax(logits[0].astype(np.float64) / temperature), rtol=1e-5, atol=1e-9)
