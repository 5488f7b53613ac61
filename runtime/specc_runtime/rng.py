"""Uniform numbers as a pure function of where they are used: Threefry2x32-20, keyed by round.

The key of a number is (seed, sample, committed, purpose, slot): `committed` is the number of tokens, prompt included,
that are final when the round starts. It grows with every round, so no number is used twice. A key by a token's own
position would not do: under block verification the stopping point depends on the rejected tail, so a number drawn
again at a rejected position is no longer uniform.

The five are packed without overlap, so two uses never share a block:

    key word 0      seed >> 32
    key word 1      seed & 0xffffffff                            (the two words jax.random.PRNGKey(seed) holds)
    counter word 0  committed                                    32 bits
    counter word 1  sample << 16 | purpose << 12 | slot          16, 4 and 12 bits

    u = (first output word >> 8) * 2**-24

Everything is 32-bit, so that a loop on a device makes the same bits; they are those of
`jax.extend.random.threefry_2x32(key, [counter words])`.
"""

import os
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import OptionError

_WORD = 0xFFFFFFFF
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_AHEAD = 512  # numbers a UniformStream makes at once


class Purpose(IntEnum):
    """What a uniform decides: a drafted token, its acceptance, or the token the verifier adds at the round's end."""

    DRAFT = 0
    ACCEPT = 1
    EMIT = 2


class RoundUniforms(NamedTuple):
    """The uniforms of one round. draft: float64 [gamma]. accept: float64 [gamma + 1], the last for the final draw."""

    draft: NDArray[np.float64]
    accept: NDArray[np.float64]


def uniforms(seed: int, sample: int, committed: int, purpose: Purpose, slots: int) -> NDArray[np.float64]:
    """Uniforms in [0, 1), float64 `[slots]`, multiples of 2**-24; slot i's value does not depend on `slots`."""
    return _draw(seed, [committed] * slots, _tags(sample, purpose, slots))


def round_uniforms(seed: int, sample: int, committed: int, gamma: int) -> RoundUniforms:
    """All uniforms of a round of `gamma` drafted tokens in one call; equal to `uniforms` purpose by purpose."""
    tags = round_tags(sample, gamma)
    values = _draw(seed, [committed] * len(tags), tags)
    return RoundUniforms(values[:gamma], values[gamma:])


class UniformStream:
    """The uniforms of one sample's rounds, equal to `round_uniforms`, made for many committed lengths at once.

    What a round is about to need is then a row of a table, and the tens of microseconds that making it takes, with code
    that the engine has pushed out of the processor's caches, come once in many rounds.
    """

    def __init__(self, seed: int, sample: int) -> None:
        self._seed = seed
        self._sample = sample
        self._tables: dict[int, tuple[int, RoundUniforms]] = {}  # by gamma: the first length, a row for each from there

    def round(self, committed: int, gamma: int) -> RoundUniforms:
        """The uniforms of a round of `gamma` drafted tokens that starts after `committed` tokens."""
        first, table = self._tables.get(gamma, (committed + 1, _NO_ROUNDS))
        row = committed - first
        if not 0 <= row < len(table.accept):
            row, table = 0, self._make(committed, gamma)
            self._tables[gamma] = committed, table
        return RoundUniforms(table.draft[row], table.accept[row])

    def _make(self, committed: int, gamma: int) -> RoundUniforms:
        lengths = min(max(1, _AHEAD // (2 * gamma + 1)), (1 << 32) - committed)
        tags = round_tags(self._sample, gamma)
        counters = np.repeat(np.arange(committed, committed + lengths), len(tags)).tolist()
        values = _draw(self._seed, counters, tags * lengths).reshape(lengths, len(tags))
        return RoundUniforms(values[:, :gamma], values[:, gamma:])


@cache
def no_uniforms(gamma: int) -> RoundUniforms:
    """What a greedy round is given, which draws nothing: zeros."""
    return RoundUniforms(np.zeros(gamma), np.zeros(gamma + 1))


_NO_ROUNDS = RoundUniforms(np.zeros((0, 0)), np.zeros((0, 0)))


def fresh_seed() -> int:
    """A 64-bit seed from the operating system, for a request that names none."""
    return int.from_bytes(os.urandom(8), "little")


def threefry2x32(
    key: tuple[int, int], counter0: Sequence[int], counter1: Sequence[int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Threefry2x32-20 (Salmon et al. 2011, Random123) of blocks `(counter0[i], counter1[i])`: two words a block.

    All blocks are computed side by side in 64-bit lanes of one Python integer. For the few blocks a round needs this
    is several times faster than numpy, whose cost per call is the same for ten words as for a thousand.
    """
    ones = _lanes([1] * len(counter0))
    mask = ones * _WORD
    keys = (*key, key[0] ^ key[1] ^ PARITY)
    x0 = (_lanes(counter0) + keys[0] * ones) & mask
    x1 = (_lanes(counter1) + keys[1] * ones) & mask
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = (x0 + x1) & mask
            shifted = x1 << rotation
            x1 = ((shifted | shifted >> 32) & mask) ^ x0
        x0 = (x0 + keys[(group + 1) % 3] * ones) & mask
        x1 = (x1 + (keys[(group + 2) % 3] + group + 1) * ones) & mask
    return _words(x0, len(counter0)), _words(x1, len(counter0))


def _tags(sample: int, purpose: Purpose, slots: int) -> range:
    """Counter words of a purpose's first `slots` numbers."""
    if not 0 <= sample < 1 << 16:
        raise OptionError(
            f"sample {sample} has no uniforms of its own: 65536 samples is the most a request may ask for"
        )
    if slots > 1 << 12:
        raise OptionError(f"no uniforms for {slots} slots: they have 12 bits")
    first = sample << 16 | purpose << 12
    return range(first, first + slots)


def round_tags(sample: int, gamma: int) -> list[int]:
    """Second counter words of a round: gamma to draft with, gamma to accept with, one for the last token."""
    counts = {Purpose.DRAFT: gamma, Purpose.ACCEPT: gamma, Purpose.EMIT: 1}
    return [tag for purpose, slots in counts.items() for tag in _tags(sample, purpose, slots)]


def _draw(seed: int, committed: Sequence[int], tags: Sequence[int]) -> NDArray[np.float64]:
    """A number for each pair of a committed length and a tag; lengths ascend."""
    ends = (committed[0], committed[-1]) if committed else (0, 0)
    if not (0 <= seed < 1 << 64 and 0 <= ends[0] <= ends[1] < 1 << 32):
        raise OptionError(f"no uniforms for seed {seed} and {ends[1]} tokens: they have 64 and 32 bits")
    bits, _ = threefry2x32((seed >> 32, seed & _WORD), committed, tags)
    return (bits >> 8).astype(np.float64) * 2.0**-24


def _lanes(words: Sequence[int]) -> int:
    return int.from_bytes(np.array(words, dtype="<u8").tobytes(), "little")


def _words(lanes: int, count: int) -> NDArray[np.uint32]:
    return np.frombuffer(lanes.to_bytes(8 * count, "little"), dtype="<u4")[::2]
