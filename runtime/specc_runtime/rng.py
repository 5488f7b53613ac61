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

Everything is 32-bit, so a JAX loop gets the same bits from `jax.extend.random.threefry_2x32(key, [counter words])`.
"""

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import OptionError

_WORD = 0xFFFFFFFF
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


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
    tag = _tag(sample, purpose)
    return _draw(seed, committed, range(tag, tag + slots))


def round_uniforms(seed: int, sample: int, committed: int, gamma: int) -> RoundUniforms:
    """All uniforms of a round of `gamma` drafted tokens in one call; equal to `uniforms` purpose by purpose."""
    draft, accept, emit = (_tag(sample, purpose) for purpose in Purpose)
    values = _draw(seed, committed, (*range(draft, draft + gamma), *range(accept, accept + gamma), emit))
    return RoundUniforms(values[:gamma], values[gamma:])


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
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    x0 = (_lanes(counter0) + keys[0] * ones) & mask
    x1 = (_lanes(counter1) + keys[1] * ones) & mask
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = (x0 + x1) & mask
            shifted = x1 << rotation
            x1 = ((shifted | shifted >> 32) & mask) ^ x0
        x0 = (x0 + keys[(group + 1) % 3] * ones) & mask
        x1 = (x1 + (keys[(group + 2) % 3] + group + 1) * ones) & mask
    return _words(x0, len(counter0)), _words(x1, len(counter0))


def _tag(sample: int, purpose: Purpose) -> int:
    if not 0 <= sample < 1 << 16:
        raise OptionError(
            f"sample {sample} has no uniforms of its own: 65536 samples is the most a request may ask for"
        )
    return sample << 16 | purpose << 12


def _draw(seed: int, committed: int, tags: Sequence[int]) -> NDArray[np.float64]:
    if not (0 <= seed < 1 << 64 and 0 <= committed < 1 << 32 and len(tags) <= 1 << 12):
        raise OptionError(
            f"no uniforms for seed {seed}, {committed} tokens, {len(tags)} slots: they have 64, 32 and 12 bits"
        )
    bits, _ = threefry2x32((seed >> 32, seed & _WORD), [committed] * len(tags), tags)
    return (bits >> 8).astype(np.float64) * 2.0**-24


def _lanes(words: Sequence[int]) -> int:
    return int.from_bytes(np.array(words, dtype="<u8").tobytes(), "little")


def _words(lanes: int, count: int) -> NDArray[np.uint32]:
    return np.frombuffer(lanes.to_bytes(8 * count, "little"), dtype="<u4")[::2]
