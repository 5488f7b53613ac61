"""What a request does to logits before they become a law: bias, penalties, masks, the user's processor."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import OptionError
from specc_runtime.history import TokenHistory
from specc_runtime.params import LogitsProcessor, SamplingParams

Logits = NDArray[np.float32]
Ids = NDArray[np.int64]


class LogitEdits:
    """The edits of one request, for logits whose columns are the token ids `ids` (ascending; None: 0, 1, ...).

    Row r of R sees the history and the drafted tokens but the last R - 1 - r: with gamma drafted and gamma + 1 rows,
    row i sees the first i of them. vocab_rows: size of the row a processor is shown. end_ids: what min_new_tokens bans.
    """

    def __init__(
        self, params: SamplingParams, *, vocab_rows: int, columns: int, end_ids: Iterable[int], ids: Ids | None = None
    ) -> None:
        self._params = params
        self._columns = columns
        self._ids = ids
        self._bias_at, found = self._locate(list(params.logit_bias))
        self._bias = np.array(list(params.logit_bias.values()), dtype=np.float32)[found]
        self._end_at, _ = self._locate(sorted(end_ids))
        self._banned = self._mask()
        self._shown = None if params.logits_processor is None else np.full(vocab_rows, -np.inf, dtype=np.float32)
        self.active = bool(
            len(self._bias_at)
            or params.penalised
            or self._banned is not None
            or params.min_new_tokens
            or params.logits_processor
        )

    def apply(self, logits: Logits, history: TokenHistory, drafted: Ids) -> None:
        """Edit `logits` `[R, columns]` in place. Order: bias, penalties, masks, processor, masks once more.

        A processor's result is masked again: what is banned stays banned.
        """
        assert len(logits) <= len(drafted) + 1, "row 0 would see fewer than no drafted tokens"
        if len(self._bias_at):
            logits[:, self._bias_at] += self._bias
        if self._params.penalised:
            self._penalise(logits, history, drafted)
        self._ban(logits, history, drafted)
        if self._params.logits_processor is not None:
            for i, row in enumerate(logits, start=len(drafted) - len(logits) + 1):
                self._process(self._params.logits_processor, row, np.append(history.ids, drafted[:i]))
            self._ban(logits, history, drafted)

    def _locate(self, ids: Iterable[int] | Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Columns of those of `ids` that have one, and which of them do."""
        wanted = np.asarray(ids, dtype=np.int64)
        if self._ids is None:
            at, found = wanted, wanted < self._columns
        else:
            own = self._ids[: self._columns]
            at = own.searchsorted(wanted)
            found = np.append(own, -1)[at] == wanted
        return at[found], found

    def _mask(self) -> NDArray[np.bool_] | None:
        allowed, forbidden = self._params.allowed_token_ids, self._params.forbidden_token_ids
        if allowed is None and not forbidden:
            return None
        banned = np.full(self._columns, allowed is not None)
        if allowed is not None:
            banned[self._locate(allowed)[0]] = False
        banned[self._locate(forbidden)[0]] = True
        return banned

    def _penalise(self, logits: Logits, history: TokenHistory, drafted: Ids) -> None:
        """Repetition penalty over prompt and output (Keskar et al. 2019), then frequency and presence over the output.

        Counts are derived for each row from the history and the draft before it, so a rejected draft leaves no trace.
        """
        seen, counts = history.occurrences()
        relevant = seen.copy()
        relevant[drafted] = True
        ids = np.flatnonzero(relevant)
        at, found = self._locate(ids)
        ids = ids[found]
        in_draft = np.zeros((len(drafted) + 1, len(ids)), dtype=np.float32)
        np.cumsum(drafted[:, None] == ids, axis=0, out=in_draft[1:])
        in_draft = in_draft[-len(logits) :]
        logits[:, at] = _penalised(logits[:, at], counts[ids] + in_draft, seen[ids] | (in_draft > 0), self._params)

    def _ban(self, logits: Logits, history: TokenHistory, drafted: Ids) -> None:
        if self._banned is not None:
            np.copyto(logits, np.float32(-np.inf), where=self._banned)
        first_row = history.generated + len(drafted) - len(logits) + 1
        too_early = max(0, self._params.min_new_tokens - first_row)
        if too_early:
            logits[:too_early, self._end_at] = -np.inf

    def _process(self, processor: LogitsProcessor, row: Logits, ids_so_far: Ids) -> None:
        assert self._shown is not None
        own = slice(self._columns) if self._ids is None else self._ids[: self._columns]
        self._shown.fill(-np.inf)
        self._shown[own] = row
        result = np.asarray(processor(ids_so_far, self._shown))
        if result.shape != self._shown.shape or result.dtype.kind != "f":
            raise OptionError(
                f"logits_processor returned {result.dtype} {list(result.shape)}: "
                f"it returns floating-point logits [{len(self._shown)}]"
            )
        row[:] = result[own]


def _penalised(values: Logits, counts: Logits, seen: NDArray[np.bool_], params: SamplingParams) -> Logits:
    """`values` `[R, n]` under the three penalties; `counts`, in the output, and `seen`, anywhere, have their shape."""
    if params.repetition_penalty != 1:
        factor = np.float32(params.repetition_penalty)
        values = np.where(seen, np.where(values > 0, values / factor, values * factor), values)
    return values - np.float32(params.frequency_penalty) * counts - np.float32(params.presence_penalty) * (counts > 0)
