"""What one model's cache holds, token by token, so that no row is ever trusted that was not written for this text."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from specc_runtime.engines.base import Feed, Logits, Tokens
from specc_runtime.errors import ContextError


@dataclass
class Effort:
    """What one model was fed. Times are seconds inside the engine.

    prefilled_tokens, prefill_s: known tokens (prompt chunks, refilled holes). step_s: drafting and verifying.
    """

    prefilled_tokens: int = 0
    prefill_s: float = 0.0
    step_s: float = 0.0


class ModelCache:
    """The cache of one model in one engine, with the tokens its rows were computed from.

    Rows are compared with a text instead of being declared valid: whatever happened before (rejections, rounds without
    this model, another prompt), the rows that agree with the text are used and the others are fed again.

    rows: cache rows, context plus slack. max_width: most tokens one `feed` may take.
    follows: the cache of a model whose results this one's rows are computed from, row by row: a row written anew there
    is not trusted here.
    effort: what was fed since somebody last put a new `Effort` there.
    """

    def __init__(self, feed: Feed, rows: int, max_width: int, *, follows: "ModelCache | None" = None) -> None:
        self.effort = Effort()
        self._followers: list[ModelCache] = []
        if follows is not None:
            follows._followers.append(self)
        self._feed = feed
        self._ids = np.zeros(rows, np.int64)
        self._length = 0
        self._replaced = False
        self.max_width = max_width

    def agreed(self, ids: Tokens) -> int:
        """How many leading rows hold the leading tokens of `ids`."""
        shared = min(self._length, len(ids))
        differs = self._ids[:shared] != ids[:shared]
        first = int(differs.argmax()) if shared else 0
        return first if shared and differs[first] else shared

    def forget(self, position: int) -> None:
        """Trust no row from `position` on, here and in the caches that follow this one."""
        if position < self._length:
            self._length = position
        for follower in self._followers:
            follower.forget(position)

    def begin(self) -> None:
        """A text begins: trust nothing that another way than the cache's own wrote for the text before.

        Such rows are true, but not to the bit what a prefill writes, and no request may change what the next one says.
        """
        if self._replaced:
            self.forget(0)
            self._replaced = False

    def feed(self, tokens: Tokens, position: int, rows: int) -> Logits:
        """Write `tokens` `[S]` at rows `position ...`, S at most max_width; logits `[rows, V]` of the last `rows`."""
        started = perf_counter()
        logits = self._write(tokens, position, rows)
        self.effort.step_s += perf_counter() - started
        return logits

    def record(self, tokens: Tokens | list[int], position: int) -> None:
        """Note that an engine wrote `tokens` at rows `position ...`, and nothing of use behind them."""
        end = position + len(tokens)
        if position > self._length or end > len(self._ids):
            raise ContextError(
                f"cache rows {position} ... {end - 1} of {len(self._ids)}, of which {self._length} are written"
            )
        self.forget(position)
        self._ids[position:end] = tokens
        self._length = end

    def extend(self, ids: Tokens, start: int, rows: int = 0, *, feed: Feed | None = None) -> Logits:
        """Write `ids[start:]` in chunks; logits `[rows, V]` of the last `rows` (0 or 1) of them. start < len(ids).

        feed: another way to write the same rows.
        """
        self._replaced |= feed is not None
        started = perf_counter()
        for position in range(start, len(ids), self.max_width):
            end = min(position + self.max_width, len(ids))
            logits = self._write(ids[position:end], position, rows if end == len(ids) else 0, feed)
        self.effort.prefill_s += perf_counter() - started
        self.effort.prefilled_tokens += len(ids) - start
        return logits

    def _write(self, tokens: Tokens, position: int, rows: int, feed: Feed | None = None) -> Logits:
        self.forget(position)  # should the engine fail half-way, these rows hold nothing
        logits = (feed or self._feed)(tokens, position, rows)
        self.record(tokens, position)
        return logits
