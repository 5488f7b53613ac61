"""Log-probabilities of emitted tokens: the verifier's own law, before anything the request does to it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specc_runtime.mass import mass
from specc_runtime.truncate import largest


class TokenLogprobs(NamedTuple):
    """One emitted token: its log-probability, and the likeliest tokens `(id, log-probability)`, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def token_logprobs(
    logits: NDArray[np.float32], tokens: Sequence[int], *, token_count: int, top: int
) -> list[TokenLogprobs]:
    """Log-probability of `tokens[i]` under row i of the verifier's raw `logits` `[R, V]`, and the `top` likeliest.

    The log-softmax of the row over the ids that stand for text, before bias, penalties, masks, temperature and
    truncation (vLLM's default, `raw_logprobs`). The row is the one plain decoding would have computed for that token,
    so the values are plain decoding's. Among equals the smaller id comes first. R >= len(tokens).
    """
    return [_of_row(logits[i, :token_count], int(token), top) for i, token in enumerate(tokens)]


def _of_row(row: NDArray[np.float32], token: int, top: int) -> TokenLogprobs:
    likeliest = row.max()
    normaliser = float(likeliest) + math.log(mass(np.exp(row - likeliest)))
    best: list[int] = []
    if top:
        columns = largest(row, top)
        best = columns[np.argsort(-row[columns], kind="stable")][:top].tolist()
    return TokenLogprobs(
        token, float(row[token]) - normaliser, tuple((column, float(row[column]) - normaliser) for column in best)
    )
