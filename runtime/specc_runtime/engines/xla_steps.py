"""Feeding any number of tokens through programs of fixed widths."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specc_runtime.engines.base import Logits, Tokens
from specc_runtime.engines.xla_call import ProgramCall
from specc_runtime.errors import EngineError
from specc_runtime.manifest import FEATURES, VERIFIER

CALL_ROWS = 16  # rows that cost as much as a call does by itself, which reads all weights


@dataclass(frozen=True)
class _Width:
    """A program of one width. rows: of logits it gives: all of them, the last one fed, or none.

    exact: it must be fed its whole width, because it leaves something behind the rows it is fed.
    """

    call: ProgramCall
    width: int
    rows: int
    exact: bool

    def takes(self, left: int, asked: int) -> int:
        """How many of `left` tokens it is fed, so that it gives all logits asked for: of the last `asked` of them."""
        for fed in (min(self.width, left), min(self.width, left - asked)):
            if fed > 0 and (fed == self.width or not self.exact):
                covered = max(0, asked - (left - fed))
                if covered <= (self.rows if self.rows == self.width else min(self.rows, 1)):
                    return fed
        return 0


class Steps:
    """The steps of one decoder.

    A program wider than what is left is fed zeros behind it: what they write lies beyond every row that is read, and is
    written anew by what comes next. Near the end of the cache, where it would not fit, narrower programs are used.
    """

    def __init__(self, owner: str, calls: Iterable[ProgramCall]) -> None:
        self._widths = [_width(call, owner) for call in calls]
        if not any(w.width == w.rows == 1 for w in self._widths):
            kind = "verify" if owner == VERIFIER else "draft"
            raise EngineError(f"no usable {kind} program of one token for {owner!r}; re-compile the bundle")
        sizes = [state.shape[-2] for w in self._widths for state in w.call.program.state]
        self._cache_rows = min(sizes, default=None)
        self.max_width = max(w.width for w in self._widths)
        self.options = frozenset.intersection(*(frozenset(w.call.program.options) for w in self._widths))

    def __call__(self, tokens: Tokens, position: int, rows: int) -> Logits:
        """Logits `[rows, V]` of the last `rows` of `tokens`, fed at cache rows `position ...`."""
        if not 0 <= rows <= len(tokens) or not len(tokens):
            raise EngineError(
                f"{rows} rows of logits asked of {len(tokens)} tokens: ask for as many as are fed, at most"
            )
        made, at = [], 0
        while at < len(tokens):
            left = len(tokens) - at
            asked = min(rows, left)
            chosen, fed = self._choose(left, asked, position + at)
            logits = _feed(chosen, tokens[at : at + fed], position + at)
            covered = max(0, asked - (left - fed))
            if covered:
                made.append(logits[fed - covered : fed] if chosen.rows > 1 else logits)
            at += fed
        return np.concatenate(made) if made else np.zeros((0, 0), np.float32)

    def _choose(self, left: int, asked: int, position: int) -> tuple[_Width, int]:
        """The program that is cheapest for a token, and how many it is fed."""
        fitting = [w for w in self._widths if self._cache_rows is None or position + w.width <= self._cache_rows]
        usable = [(w, fed) for w in fitting if (fed := w.takes(left, asked))]
        if not usable:
            raise EngineError(
                f"no program takes a token at cache row {position} of {self._cache_rows}; re-compile the bundle"
            )
        return min(usable, key=lambda choice: (CALL_ROWS + choice[0].width) / choice[1])


def _width(call: ProgramCall, owner: str) -> _Width:
    program = call.program
    tensors = {tensor.name: tensor.shape for tensor in program.inputs}
    if sorted(tensors) != ["position", "rows", "tokens"] or program.width is None:
        raise EngineError(
            f"program {program.id!r}: the xla engine feeds tokens, position and rows to programs of one width, the "
            f"manifest lists {sorted(tensors)} and width {program.width}; re-compile the bundle"
        )
    reads_features = owner != VERIFIER and any(state.role == FEATURES for state in program.state)
    rows = int(tensors["rows"][0])
    return _Width(call, program.width, rows, exact=reads_features and rows > 0)


def _feed(chosen: _Width, tokens: Tokens, position: int) -> Logits:
    """All rows of logits a program gives for `tokens` and the zeros behind them."""
    padded = np.zeros(chosen.width, np.int32)
    padded[: len(tokens)] = tokens
    rows = np.arange(chosen.width) if chosen.rows == chosen.width else np.full(chosen.rows, len(tokens) - 1)
    (logits,) = chosen.call({"tokens": padded, "position": position, "rows": rows})
    made: Logits = np.asarray(logits)[0]
    return made
