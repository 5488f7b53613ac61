"""Prompt lookup: the draft is what followed the last occurrence of the text's ending (Saxena 2023)."""

import numpy as np
from numpy.typing import NDArray

from specc_runtime.drafting.base import NO_DRAFT, UNLIMITED, Draft
from specc_runtime.history import TokenHistory


class NgramDrafter:
    """A `Drafter` for texts that repeat themselves or their prompt; needs no model.

    longest: tokens of the ending that are looked up first; shorter endings follow, down to one token.
    """

    def __init__(self, longest: int = 3) -> None:
        self._lengths = range(1, longest + 1)
        self._tokens: list[int] = []
        self._follows: dict[tuple[int, ...], int] = {}  # n-gram -> index of the token after its newest occurrence

    def limit(self, committed: int) -> int:
        return UNLIMITED

    def propose(self, history: TokenHistory, gamma: int, uniforms: NDArray[np.float64]) -> Draft:
        self._read(history)
        tokens = self._tokens
        for length in reversed(self._lengths):
            start = self._follows.get(tuple(tokens[-length:]))
            if start is not None:
                return Draft(np.array(self._continue(start, gamma), np.int64))
        return NO_DRAFT

    def _read(self, history: TokenHistory) -> None:
        """Index the tokens committed since the last call. An n-gram is entered once a token follows it."""
        tokens, read = self._tokens, len(self._tokens)
        tokens += history.ids[read:].tolist()
        for index in range(max(read, 1), len(tokens)):
            for length in self._lengths[:index]:
                self._follows[tuple(tokens[index - length : index])] = index

    def _continue(self, start: int, gamma: int) -> list[int]:
        """`gamma` tokens from `start` on; where the text ends, the draft itself goes on (a loop repeats)."""
        drafted = self._tokens[start : start + gamma]
        period = len(self._tokens) - start
        while len(drafted) < gamma:
            drafted.append(drafted[len(drafted) - period])
        return drafted
