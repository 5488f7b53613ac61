"""A whole generation in one call of an engine: what a `loop` program is fed, and what it gives."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc_runtime.engines.base import LoopRequest
from specc_runtime.engines.call import Call, warping_inputs
from specc_runtime.errors import EngineError

_WORD = 0xFFFFFFFF


class LoopCall:
    """`Loop` over a loaded program.

    It takes the text in a buffer of its own length, and gives the buffer back with how many tokens each round added.
    """

    def __init__(self, call: Call) -> None:
        self.program = call.program
        self._call = call
        self._shapes = {tensor.name: tuple(map(int, tensor.shape)) for tensor in call.program.inputs}

    def __call__(self, request: LoopRequest) -> list[list[int]]:
        n, text = len(request.tokens), np.zeros(self._shapes["text"], np.int64)
        if not n < request.end <= text.shape[1]:
            raise EngineError(
                f"program {self.program.id!r}: {n} tokens and no more than {request.end} do not fit a text of "
                f"{text.shape[1]}"
            )
        text[0, :n] = request.tokens
        made = self._call({"text": text, **self._numbers(request), "stops": self._stops(request)})
        counts = made["counts"][0]
        ends = n + np.cumsum(counts[counts > 0])
        return [part.tolist() for part in np.split(made["text"][0, : ends[-1]], [n, *ends[:-1]])[1:]]

    def _numbers(self, request: LoopRequest) -> dict[str, NDArray[Any]]:
        return {
            "committed": np.array([len(request.tokens)]),
            "end": np.array([request.end]),
            "seed": np.array([[request.seed >> 32, request.seed & _WORD]]),
            "sample": np.array([request.sample]),
            **warping_inputs(request.sampling),
        }

    def _stops(self, request: LoopRequest) -> NDArray[np.bool_]:
        stops = np.zeros(self._shapes["stops"], np.bool_)
        stops[0, sorted(request.stops)] = True
        return stops
