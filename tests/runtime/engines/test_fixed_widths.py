"""Any cut of a text through programs of a few widths: the logits of the rows asked for, of all tokens before them."""

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime.engines.call import Arrays
from specc_runtime.engines.fixed_widths import Steps
from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program, ProgramKind, StateSpec, TensorSpec

CACHE_ROWS = 24
WEIGHTS = np.random.default_rng(0).integers(1, 50, CACHE_ROWS)
TEXT = np.random.default_rng(1).integers(1, 90, CACHE_ROWS)


def expected(count: int) -> int:
    """What the logits after `count` tokens of the text say: all of them, each at its place."""
    return int((TEXT[:count] * WEIGHTS[:count]).sum())


def program(kind: ProgramKind, width: int, rows: int, options: tuple[str, ...] = ("greedy",)) -> Program:
    inputs = [TensorSpec("tokens", "int64", (1, width)), TensorSpec("position", "int64", (1,))]
    if rows:
        inputs.append(TensorSpec("rows", "int64", (rows,)))
    state = StateSpec("past", "present", "verifier", "layers.0.key", "int64", (1, 1, CACHE_ROWS, 1))
    return Program(
        f"{kind}.{width}", kind, "f", tuple(inputs), (), (state,), width=width, max_width=width, options=options
    )


@dataclass
class Summing:
    """A call whose cache holds the tokens: its logits are their weighted sum up to each row."""

    program: Program
    cache: NDArray[np.int64]
    widths: list[int] = field(default_factory=list)
    logits: NDArray[np.float32] = field(default_factory=lambda: np.zeros((8, 1), np.float32))

    def __call__(self, inputs: Arrays) -> Arrays:
        (tokens,), (position,) = inputs["tokens"], inputs["position"]
        assert tokens.shape == (self.program.max_width,)
        assert position + len(tokens) <= CACHE_ROWS, "written beyond the cache"
        self.cache[position : position + len(tokens)] = tokens
        self.widths.append(len(tokens))
        if "rows" not in inputs:
            return {}
        assert inputs["rows"].shape == self.program.inputs[2].shape
        assert (inputs["rows"] < len(tokens)).all()
        self.logits[: len(inputs["rows"]), 0] = np.cumsum(self.cache * WEIGHTS)[position + inputs["rows"]]
        return {"logits": self.logits[None, : len(inputs["rows"])]}


WIDTHS = [("prefill", 8, 1), ("verify", 1, 1), ("verify", 3, 3), ("verify", 5, 5)]
DRAFTER = [("catchup", 8, 0), ("draft", 1, 1), ("draft", 2, 1)]


def steps(widths: list[tuple[ProgramKind, int, int]]) -> tuple[Steps, list[Summing]]:
    cache = np.zeros(CACHE_ROWS, np.int64)
    calls = [Summing(program(*width), cache) for width in widths]
    return Steps("verifier", calls), calls


@pytest.mark.parametrize(("start", "count"), [*product((0, 7), range(1, 18)), (19, 5), (23, 1), (16, 8), (17, 7)])
def test_every_number_of_tokens_and_rows(start: int, count: int) -> None:
    for rows in range(min(count, 9) + 1):
        stepping, _ = steps(WIDTHS)  # type: ignore[arg-type]
        if start:
            stepping(TEXT[:start], 0, 0)
        logits = stepping(TEXT[start : start + count], start, rows)
        found = logits[:, 0].tolist() if rows else []
        assert found == [expected(n) for n in range(start + count - rows + 1, start + count + 1)]
        follow = start + count
        if follow < CACHE_ROWS:  # what padding wrote is overwritten
            assert stepping(TEXT[follow : follow + 1], follow, 1)[0, 0] == expected(follow + 1)


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (2, 1), (3, 1), (9, 1), (20, 1), (9, 0), (20, 0)])
def test_a_drafter_whose_programs_give_one_row_or_none(count: int, rows: int) -> None:
    stepping, _ = steps(DRAFTER)  # type: ignore[arg-type]
    logits = stepping(TEXT[:count], 0, rows)
    assert (logits[:, 0].tolist() if rows else []) == [expected(count)][:rows]
    assert stepping(TEXT[count : count + 1], count, 1)[0, 0] == expected(count + 1)


@pytest.mark.parametrize(
    ("count", "rows", "widths"),
    [(1, 1, [1]), (2, 2, [3]), (5, 5, [5]), (5, 1, [5]), (6, 1, [8]), (8, 0, [8]), (9, 1, [8, 1]), (8, 2, [8, 3])],
)
def test_as_few_calls_as_can_be_each_as_narrow_as_can_be(count: int, rows: int, widths: list[int]) -> None:
    stepping, calls = steps(WIDTHS)  # type: ignore[arg-type]
    made: list[int] = []
    for call in calls:
        call.widths = made
    stepping(TEXT[:count], 0, rows)
    assert made == widths


def test_a_draft_step_that_predicts_features_is_made_for_logits_only() -> None:
    """Known tokens go through programs that leave no prediction, even where only narrow ones fit."""
    cache, features = np.zeros(CACHE_ROWS, np.int64), StateSpec("f", "g", "drafter", "features", "float32", (1, 40, 4))
    calls = [
        Summing(program(*width), cache)
        for width in (("catchup", 1, 0), ("catchup", 8, 0), ("draft", 1, 1), ("draft", 4, 1))
    ]  # type: ignore[arg-type]
    for call in calls:
        call.program = replace(call.program, drafter="drafter", state=(*call.program.state, features))
    stepping = Steps("drafter", calls)
    stepping(TEXT[:21], 0, 0)
    assert [call.widths for call in calls] == [[], [8, 8, 8], [], []]
    assert stepping(TEXT[21:24], 21, 1)[0, 0] == expected(24)
    assert [call.widths for call in calls] == [[1, 1], [8, 8, 8], [1], []]


def test_what_it_offers() -> None:
    calls = [
        Summing(program("verify", 1, 1, ("greedy", "top_k")), np.zeros(CACHE_ROWS, np.int64)),
        Summing(program("prefill", 8, 1), np.zeros(CACHE_ROWS, np.int64)),
    ]
    stepping = Steps("verifier", calls)
    assert (stepping.max_width, stepping.options) == (8, {"greedy"})


@pytest.mark.parametrize(("count", "rows"), [(0, 0), (2, 3), (2, -1)])
def test_rows_of_tokens_that_are_not_fed_are_refused(count: int, rows: int) -> None:
    with pytest.raises(EngineError, match=f"{rows} rows of logits of {count} tokens"):
        steps(WIDTHS)[0](TEXT[:count], 0, rows)  # type: ignore[arg-type]


def test_a_cache_that_is_full_is_said() -> None:
    with pytest.raises(EngineError, match=r"no program takes 2 tokens at row 24 of a cache of 24"):
        steps(WIDTHS)[0](TEXT[:2], CACHE_ROWS, 0)  # type: ignore[arg-type]


def test_a_model_that_no_program_steps_is_refused() -> None:
    with pytest.raises(EngineError, match="no usable program feeds 'verifier' a single token"):
        steps([("prefill", 8, 1), ("catchup", 1, 0)])
