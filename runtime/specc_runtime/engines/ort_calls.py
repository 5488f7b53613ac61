"""Calls on programs of open width, and whole rounds, on arrays of the host.

Where the rest of the memory lies, and what runs them, is the session's matter.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specc_runtime.engines.base import Logits, RoundSampling, Tokens
from specc_runtime.engines.call import Arrays
from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program, TensorSpec


class Session(Protocol):
    """One program file in an engine, its state bound already."""

    @property
    def program(self) -> Program: ...

    def bound(self, arrays_in: Arrays, arrays_out: Arrays) -> Callable[[], None]:
        """A call that reads these arrays as they are then and fills those."""
        ...


class StepProgram:
    """tokens, position and the rows wanted in; logits out. Calls of one shape share what they are bound to."""

    def __init__(self, session: Session) -> None:
        program = session.program
        expect_tensors(program, ("tokens", "position", "rows"), ("logits",))
        self.max_width = program.max_width
        self.options = frozenset(program.options)
        self._session = session
        self._vocabulary = static_size(program, program.outputs, "logits", 2)
        self._tokens = np.zeros(self.max_width, np.int64)
        self._position = np.zeros(1, np.int64)
        self._logits = np.zeros(0, np.float32)
        self._bound: dict[tuple[int, int], tuple[Callable[[], None], Tokens, Logits]] = {}

    def __call__(self, tokens: Tokens, position: int, rows: int) -> Logits:
        key = (len(tokens), rows)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = self._bind(*key)
        run, fed, logits = bound
        fed[:] = tokens
        self._position[0] = position
        run()
        return logits

    def _bind(self, width: int, rows: int) -> tuple[Callable[[], None], Tokens, Logits]:
        """Shapes share the token and logits memory, so many chunk widths cost no more than the largest."""
        if not 0 <= rows <= width <= self.max_width or not width:
            raise EngineError(
                f"program {self._session.program.id!r} is fed {width} rows; it takes 1 to {self.max_width}"
            )
        if self._logits.size < rows * self._vocabulary:
            self._logits = np.zeros(rows * self._vocabulary, np.float32)
            self._bound.clear()
        fed = self._tokens[:width]
        logits = self._logits[: rows * self._vocabulary].reshape(rows, self._vocabulary)
        inputs = {
            "tokens": fed[None],
            "position": self._position,
            "rows": np.arange(width - rows, width, dtype=np.int64),
        }
        return self._session.bound(inputs, {"logits": logits[None]}), fed, logits


class RoundProgram:
    """The last committed tokens, uniforms and warping in; emitted ids and their count out."""

    def __init__(self, session: Session) -> None:
        expect_tensors(
            session.program,
            ("tokens", "position", "uniforms", "temperature", "top_k", "top_p", "min_p"),
            ("ids", "count"),
        )
        gamma = (session.program.width or 1) - 1
        width = static_size(session.program, session.program.inputs, "tokens", 1)
        self._tokens, self._position = np.zeros((1, width), np.int64), np.zeros(1, np.int64)
        self._uniforms = np.zeros((1, 2 * gamma + 1), np.float32)
        self._temperature, self._top_k = np.zeros(1, np.float32), np.zeros(1, np.int64)
        self._top_p, self._min_p = np.zeros(1, np.float32), np.zeros(1, np.float32)
        self._ids, self._count = np.zeros((1, gamma + 1), np.int64), np.zeros(1, np.int64)
        inputs: dict[str, NDArray[Any]] = {
            "tokens": self._tokens,
            "position": self._position,
            "uniforms": self._uniforms,
            "temperature": self._temperature,
            "top_k": self._top_k,
            "top_p": self._top_p,
            "min_p": self._min_p,
        }
        self._run = session.bound(inputs, {"ids": self._ids, "count": self._count})

    def __call__(self, tokens: Tokens, position: int, uniforms: NDArray[np.float32], sampling: RoundSampling) -> Tokens:
        self._tokens[0] = tokens
        self._position[0] = position
        self._uniforms[0] = uniforms
        self._temperature[0], self._top_k[0] = sampling.temperature, sampling.top_k
        self._top_p[0], self._min_p[0] = sampling.top_p, sampling.min_p
        self._run()
        return self._ids[0, : int(self._count[0])]


def expect_tensors(program: Program, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Raises EngineError unless the manifest lists these tensors for `program` and no others."""
    for table, known in ((program.inputs, inputs), (program.outputs, outputs)):
        found = tuple(tensor.name for tensor in table)
        if sorted(found) != sorted(known):
            raise EngineError(
                f"program {program.id!r}: the ort engine binds {known}, the manifest lists {found}; re-compile"
            )


def static_size(program: Program, tensors: Sequence[TensorSpec], name: str, axis: int) -> int:
    """The size of one axis. Raises EngineError if the manifest leaves it open."""
    shape = next(tensor.shape for tensor in tensors if tensor.name == name)
    size = shape[axis] if len(shape) > axis else None
    if not isinstance(size, int):
        raise EngineError(f"program {program.id!r}: axis {axis} of {name} {list(shape)} must be a number; re-compile")
    return size
