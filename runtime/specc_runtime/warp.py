"""From logits to the law a request samples from: the one place where sampling options act.

Order: bias, penalties, masks, the user's processor (`logit_edits`), temperature, top_k, top_p, min_p. Ties at a
threshold are all kept. Verifier and drafter pass through the same code: q is warped as p is, and acceptance stays high.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import OptionError
from specc_runtime.history import TokenHistory
from specc_runtime.logit_edits import Ids, LogitEdits, Logits
from specc_runtime.mass import mass
from specc_runtime.params import SamplingParams
from specc_runtime.truncate import largest, nucleus

Laws = NDArray[np.float32]

_SAFE_EXPONENT = 60
"""exp of up to this, summed over a vocabulary, is far from float32's limits: no shift, one pass less over the row."""


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
        self._laws = np.zeros((max_rows, vocab_rows if ids is None else len(ids)), dtype=np.float32)
        self._edited = np.empty((max_rows if self._edits.active else 0, self._columns), dtype=np.float32)

    def laws(
        self, logits: Logits, history: TokenHistory, drafted: Sequence[int] | Ids, out: Laws | None = None
    ) -> Laws:
        """Laws of `logits` `[R, V]`, float32 `[R, V]`: in `out`, or in a buffer that the next call overwrites.

        Row r sees `history` and `drafted` but its last R - 1 - r tokens: row i of a whole block sees `drafted[:i]`, a
        single row sees all of them. Greedy requests give one-hot laws.
        """
        laws = self._laws[: len(logits)] if out is None else out
        for row, law in zip(self._prepare(logits, history, drafted), laws, strict=True):
            law[self._columns :] = 0
            self._warp(row, law[: self._columns])
        return laws

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

    def _warp(self, row: Logits, law: Laws) -> None:
        """Write the law of one row of edited logits into `law`; both `[columns]`."""
        params = self._params
        top = row.max()
        _check_finite(top)
        if params.greedy:
            law.fill(0)
            law[row.argmax()] = 1
            return
        columns = largest(row, params.top_k) if params.top_k else None
        weights = self._exponentials(row, top, law) if columns is None else self._exponentials(row[columns], top)
        total = mass(weights)
        kept = self._truncate(weights, total)
        if kept is not None:
            columns, weights = (kept if columns is None else columns[kept]), weights[kept]
            total = mass(weights)
        if columns is None:
            law *= np.float32(1 / total)
        else:
            law.fill(0)
            law[columns] = weights * np.float32(1 / total)

    def _exponentials(self, row: Logits, top: np.float32, out: Laws | None = None) -> Laws:
        """exp(row / temperature), in `out` if given; divided by the largest, at logit `top`, where float32 needs it."""
        scale = np.float32(1 / self._params.temperature)
        scaled = row if scale == 1 else np.multiply(row, scale, out=out)
        if abs(top * scale) > _SAFE_EXPONENT:
            scaled = np.subtract(scaled, top * scale, out=out)
        return np.exp(scaled, out=out)

    def _truncate(self, weights: Laws, total: float) -> NDArray[np.intp] | None:
        """Indices of `weights` that top_p and min_p keep; None: all."""
        params = self._params
        if params.top_p < 1:
            kept = nucleus(weights, params.top_p, total)
            return kept[weights[kept] >= params.min_p * weights[kept].max()] if params.min_p else kept
        return (weights >= params.min_p * weights.max()).nonzero()[0] if params.min_p else None


def _check_finite(likeliest: np.float32 | float) -> None:
    """Refuse a row by its largest logit: numpy's maximum is NaN if any logit is."""
    if math.isfinite(likeliest):
        return
    if likeliest == -math.inf:
        raise OptionError("every token is banned here: loosen allowed_token_ids, forbidden_token_ids or the processor")
    raise OptionError(
        f"the largest logit is {likeliest}: a logits_processor or the program gave values that are not finite"
    )
