"""Any number of tokens through programs that each take one number of them, for engines whose programs are static."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Logits, RoundSampling, Tokens
from specc_runtime.engines.call import Call, warping_inputs
from specc_runtime.engines.looping import LoopCall
from specc_runtime.engines.stepping import SteppedPrograms
from specc_runtime.errors import EngineError
from specc_runtime.manifest import FEATURES, VERIFIER, Program

CALL_ROWS = 256  # rows that take a GPU as long as reading all weights does, which is what a call costs by itself
NO_ROW = -1  # asks for no logits: a drafter that reads features then predicts none
STEPS = ("prefill", "verify", "draft", "catchup")
_FED = ["position", "rows", "tokens"]  # inputs of a step


class FixedWidthPrograms(SteppedPrograms):
    """`Programs` over calls of one width each.

    load: makes a call of a program. zero: zeroes every state buffer. call_rows: what a call costs besides its rows.
    """

    def __init__(
        self,
        bundle: Bundle,
        programs: Iterable[Program],
        load: Callable[[Program], Call],
        zero: Callable[[], None],
        call_rows: int = CALL_ROWS,
    ) -> None:
        models = bundle.manifest.model_drafters
        used = [p for p in programs if p.drafter is None or p.drafter in models]
        self.rounds = tuple(p for p in used if p.kind == "round")
        steps = {
            owner: [load(p) for p in used if p.kind in STEPS and (p.drafter or VERIFIER) == owner]
            for owner in (VERIFIER, *models)
        }
        super().__init__({owner: Steps(owner, calls, call_rows) for owner, calls in steps.items()})
        self._rounds = {program.id: load(program) for program in self.rounds}
        self.loops = tuple(LoopCall(load(program)) for program in used if program.kind == "loop")
        self.reset = zero

    def round(
        self,
        program: Program,
        tokens: Tokens,
        position: int,
        uniforms: NDArray[np.float32],
        sampling: RoundSampling,
    ) -> Tokens:
        made = self._rounds[program.id](
            {
                "tokens": tokens[None],
                "position": np.array([position]),
                "uniforms": uniforms[None],
                **warping_inputs(sampling),
            }
        )
        return made["ids"][0, : int(made["count"][0])]


class Steps:
    """The steps of one model.

    A program wider than what is left is fed zeros behind it: what they write lies beyond every row that is read, and is
    overwritten by what comes next. Where that would not fit into the cache, narrower programs are taken.
    A draft step of a drafter that reads features leaves its prediction of the next: it is made for logits only.
    Of the calls that could come next the cheapest for a token is made, of equal ones the narrowest.
    """

    def __init__(self, owner: str, calls: Iterable[Call], call_rows: int = CALL_ROWS) -> None:
        self._calls = sorted(calls, key=lambda call: call.program.max_width)
        self._call_rows = call_rows
        programs = [call.program for call in self._calls]
        for program in programs:
            _check_inputs(program)
        if not any(program.width == 1 and _rows(program) for program in programs):
            raise EngineError(f"no usable program feeds {owner!r} a single token; re-compile or rebuild the bundle")
        self._cache_rows = min((s.shape[-2] for p in programs for s in p.state), default=None)
        self.max_width = max(program.max_width for program in programs)
        self.options = frozenset.intersection(*(frozenset(program.options) for program in programs))

    def __call__(self, tokens: Tokens, position: int, rows: int) -> Logits:
        """Logits `[rows, V]` of the last `rows` of `tokens`, which are fed at cache rows `position ...`."""
        if not 0 <= rows <= len(tokens) or not len(tokens):
            raise EngineError(f"{rows} rows of logits of {len(tokens)} tokens: ask for as many as are fed, at most")
        parts = []
        while len(tokens):
            call, fed, asked = self._next(len(tokens), rows, position)
            logits = _feed(call, tokens[:fed], position, asked)
            if asked:
                parts.append(logits if asked == rows else logits.copy())  # the next call may write there
            tokens, position, rows = tokens[fed:], position + fed, rows - asked
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    def _next(self, left: int, rows: int, position: int) -> tuple[Call, int, int]:
        """The call to make next, how many tokens it is fed, and how many of them give logits."""
        usable: list[tuple[Call, int, int]] = []
        for call in self._calls:
            width = call.program.max_width
            if self._cache_rows is not None and position + width > self._cache_rows:
                continue
            fed = min(width, left)
            asked = max(0, rows - (left - fed))
            if asked > _rows(call.program):
                fed, asked = min(width, left - rows), 0
            if fed and (asked or not _predicts_features(call.program)):
                usable.append((call, fed, asked))
        if not usable:
            raise EngineError(
                f"no program takes {left} tokens at row {position} of a cache of {self._cache_rows}; "
                "re-compile the bundle"
            )
        return min(usable, key=lambda choice: (self._call_rows + choice[0].program.max_width) / choice[1])


def _check_inputs(program: Program) -> None:
    names = sorted(tensor.name for tensor in program.inputs)
    if names not in (_FED, ["position", "tokens"]):
        raise EngineError(
            f"program {program.id!r}: steps are fed tokens, position and rows, the manifest lists {', '.join(names)}; "
            "re-compile the bundle"
        )


def _rows(program: Program) -> int:
    """How many tokens' logits a program gives."""
    return next((int(t.shape[0]) for t in program.inputs if t.name == "rows"), 0)


def _predicts_features(program: Program) -> bool:
    """Whether a program is a draft step of a drafter that reads features."""
    return program.kind == "draft" and any(state.role == FEATURES for state in program.state)


def _feed(call: Call, tokens: Tokens, position: int, asked: int) -> Logits:
    """Feed `tokens`, and zeros behind them; logits of the last `asked`."""
    program = call.program
    padded = np.zeros((1, program.max_width), np.int64)
    padded[0, : len(tokens)] = tokens
    inputs = {"tokens": padded, "position": np.array([position])}
    if any(tensor.name == "rows" for tensor in program.inputs):
        given = _rows(program)
        last = np.arange(len(tokens) - asked, len(tokens) - asked + given)
        inputs["rows"] = np.minimum(last, program.max_width - 1) if asked else np.full(given, NO_ROW)
    made = call(inputs)
    return made["logits"][0, :asked] if asked else np.zeros((0, 0), np.float32)
