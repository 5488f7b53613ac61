"""From logits to the law a request samples from: the one place where sampling options act.

Order: bias, penalties, masks, the user's processor (`logit_edits`), temperature, top_k, top_p, min_p. Ties at a
threshold are all kept. Verifier and drafter pass through the same code: q is warped as p is, and acceptance stays high.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import OptionError
from specc_runtime.exponential import tempered_exp
from specc_runtime.history import TokenHistory
from specc_runtime.law_rows import LawRows
from specc_runtime.logit_edits import Ids, LogitEdits, Logits
from specc_runtime.mass import mass
from specc_runtime.params import SamplingParams
from specc_runtime.truncate import largest, nucleus

Laws = NDArray[np.float32]

_SAFE_TOTALS = (1e-20, 1e30)
"""Sums of unshifted exponentials that lost nothing to the limits of float32: no pass to find the largest is needed."""


class Warper:
    """The warping of one request for one model, with scratch reused from call to call (not for concurrent use).

    vocab_rows: columns of the verifier's logits. token_count: ids from here up are vocabulary pads, never emitted.
    eos_ids: the model's. max_rows: most rows one call may hold.
    ids: a trimmed head: its columns as full token ids, ascending; laws then have its columns. None: all ids.

    A model with other padding but the same tokens needs no `ids`: logits may have any width of at least token_count.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        vocab_rows: int,
        token_count: int,
        eos_ids: Iterable[int],
        max_rows: int,
        ids: Ids | None = None,
    ) -> None:
        self._params = params
        self._ids = ids
        self._columns = min(token_count, vocab_rows) if ids is None else int(ids.searchsorted(token_count))
        self._edits = LogitEdits(
            params, vocab_rows=vocab_rows, columns=self._columns, end_ids=params.end_ids(eos_ids), ids=ids
        )
        self._laws = LawRows(max_rows, vocab_rows if ids is None else len(ids))
        self._weights = np.empty(self._columns, dtype=np.float32)
        self._edited = np.empty((max_rows if self._edits.active else 0, self._columns), dtype=np.float32)

    def laws(
        self,
        logits: Logits,
        history: TokenHistory,
        drafted: Sequence[int] | Ids,
        out: LawRows | None = None,
        first: int = 0,
    ) -> Laws:
        """Laws of `logits` `[R, V]`, float32 `[R, V]`: in rows `first ...` of `out`, or of the warper's own.

        They stay as they are until the same rows are written again.

        Row r sees `history` and `drafted` but its last R - 1 - r tokens: row i of a whole block sees `drafted[:i]`, a
        single row sees all of them. Greedy requests give one-hot laws.
        """
        out = self._laws if out is None else out
        for number, row in enumerate(self._prepare(logits, history, drafted), first):
            self._warp(row, out, number)
        return out.values[first : first + len(logits)]

    def greedy(self, logits: Logits, history: TokenHistory, drafted: Sequence[int] | Ids) -> list[int]:
        """The likeliest token id of each row, the first among equals; rows as in `laws`, no law is built."""
        ids = []
        for row in self._prepare(logits, history, drafted):
            column = int(row.argmax())
            _check_finite(row.item(column))
            ids.append(self.token_id(column))
        return ids

    def token_id(self, column: int) -> int:
        """Full token id of a law's column."""
        return column if self._ids is None else int(self._ids[column])

    def _prepare(self, logits: Logits, history: TokenHistory, drafted: Sequence[int] | Ids) -> Logits:
        """Edited logits without pads, `[R, columns]`; a view of `logits` if the request edits nothing."""
        used = logits[:, : self._columns]
        if not self._edits.active:
            return used
        edited = self._edited[: len(used)]
        np.copyto(edited, used)
        self._edits.apply(edited, history, np.asarray(drafted, dtype=np.int64))
        if self._ids is not None:
            # A head trimmed to banned tokens only still has to draft something: the verifier will reject it.
            barred = np.isneginf(edited.max(axis=1))
            edited[barred] = used[barred]
        return edited

    def _warp(self, row: Logits, out: LawRows, number: int) -> None:
        """Write the law of one row of edited logits `[columns]` into row `number` of `out`."""
        params = self._params
        if params.greedy:
            column = int(row.argmax())
            _check_finite(row.item(column))
            out.put(number, column, 1)
        elif not (params.top_k or params.top_p < 1 or params.min_p):
            law = out.dense(number, self._columns)
            _, total = self._exponentials(row, law)
            law *= np.float32(1 / total)
        else:
            columns, weights = self._candidates(row)
            out.put(number, columns, weights * np.float32(1 / mass(weights)))

    def _candidates(self, row: Logits) -> tuple[NDArray[np.intp], Laws]:
        """The columns that top_k, top_p and min_p leave, with weights in proportion to their probabilities."""
        if not self._params.top_k:
            weights, total = self._exponentials(row, self._weights)
            kept = self._truncate(weights, total)
            return kept, weights[kept]
        _check_finite(row.max())
        columns = largest(row, self._params.top_k)
        weights, total = self._exponentials(row[columns])
        kept = self._truncate(weights, total)
        return columns[kept], weights[kept]

    def _exponentials(self, row: Logits, out: Laws | None = None) -> tuple[Laws, float]:
        """exp(row / temperature), in `out` if given, and its sum; divided by the largest where float32 needs it."""
        with np.errstate(over="ignore", invalid="ignore"):
            weights = tempered_exp(row, self._params.temperature, out)
            total = mass(weights)
        low, high = _SAFE_TOTALS
        if low < total < high:
            return weights, total
        top = row.max()
        _check_finite(top)
        weights = tempered_exp(np.subtract(row, top, out=out), self._params.temperature, out)
        return weights, mass(weights)

    def _truncate(self, weights: Laws, total: float) -> NDArray[np.intp]:
        """Indices of `weights` that top_p and min_p keep."""
        top_p, min_p = self._params.top_p, self._params.min_p
        kept: NDArray[np.intp]
        if top_p < 1:
            kept = nucleus(weights, top_p, total)
            return kept[weights[kept] >= min_p * weights[kept].max()] if min_p else kept
        kept = (weights >= min_p * weights.max()).nonzero()[0]
        return kept


def _check_finite(likeliest: np.float32 | float) -> None:
    """Refuse a row by its largest logit: numpy's maximum is NaN if any logit is."""
    if math.isfinite(likeliest):
        return
    if likeliest == -math.inf:
        raise OptionError("every token is banned here: loosen allowed_token_ids, forbidden_token_ids or the processor")
    raise OptionError(
        f"the largest logit is {likeliest}: a logits_processor or the program gave values that are not finite"
    )
