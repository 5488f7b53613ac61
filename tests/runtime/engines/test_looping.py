"""What a `loop` program is fed, and how its rounds are read."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc_runtime.engines.base import LoopRequest, RoundSampling
from specc_runtime.engines.looping import LoopCall
from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program, TensorSpec

ROWS, VOCABULARY = 12, 9
PROGRAM = Program(
    "loop", "loop", "f",
    (TensorSpec("text", "int32", (1, ROWS)), TensorSpec("stops", "bool", (1, VOCABULARY))), (), width=4, max_width=4,
)  # fmt: skip
SAMPLING = RoundSampling(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1)


def request(end: int = 10, seed: int = (5 << 32) + 7) -> LoopRequest:
    return LoopRequest(np.array([4, 2, 6]), end, frozenset({8, 1}), seed, 2, SAMPLING)


class Recording:
    """A call that emits what it is told to, in rounds of these lengths."""

    def __init__(self, *rounds: list[int]) -> None:
        self.program = PROGRAM
        self.fed: dict[str, NDArray[Any]] = {}
        self._rounds = rounds

    def __call__(self, inputs: Any) -> dict[str, NDArray[Any]]:
        self.fed = {name: array.copy() for name, array in inputs.items()}
        text, counts = inputs["text"].copy(), np.zeros((1, ROWS), np.int32)
        emitted = [token for tokens in self._rounds for token in tokens]
        text[0, 3 : 3 + len(emitted)] = emitted
        counts[0, : len(self._rounds)] = list(map(len, self._rounds))
        return {"text": text, "counts": counts}


def test_rounds_are_read_from_the_text() -> None:
    assert LoopCall(Recording([5, 5, 1], [7], [0, 3]))(request()) == [[5, 5, 1], [7], [0, 3]]
    assert LoopCall(Recording([6]))(request()) == [[6]]


def test_what_it_is_fed() -> None:
    call = Recording([1])
    LoopCall(call)(request())
    assert {name: array.tolist() for name, array in call.fed.items()} == {
        "text": [[4, 2, 6] + [0] * (ROWS - 3)],
        "committed": [3],
        "end": [10],
        "stops": [[token in (1, 8) for token in range(VOCABULARY)]],
        "seed": [[5, 7]],
        "sample": [2],
        "temperature": [0.5],
        "top_k": [3],
        "top_p": [np.float32(0.9)],
        "min_p": [np.float32(0.1)],
    }


@pytest.mark.parametrize("end", [3, 13])
def test_an_end_that_is_none_is_refused(end: int) -> None:
    with pytest.raises(EngineError, match=f"3 tokens and no more than {end} do not fit a text of 12"):
        LoopCall(Recording([1]))(request(end))
