"""What every engine gives the decoding loop: the bundle's programs as calls on token arrays, state kept inside.

One `Programs` object serves one sequence at a time (batch 1). Positions are cache rows: `position` is where the first
of the given tokens is written. Rejection needs no call: feeding at an earlier position overwrites what was there.
Returned arrays are views that stay valid until the next call on the same object.

A feature drafter's row i goes with the verifier's row i: it is fed token i + 1 and reads the verifier's feature there.
Features are state like caches and never cross this interface, so they may live on a device: `verify` leaves those of
the rows it is fed, `draft` leaves the drafter's own prediction for the row after, `catchup` leaves none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specc_runtime.manifest import Program

Tokens = NDArray[np.int64]
Logits = NDArray[np.float32]
Feed = Callable[[Tokens, int, int], Logits]
"""(tokens `[S]`, cache row of the first, rows of logits wanted) -> logits `[rows, V]`."""


@dataclass(frozen=True)
class RoundSampling:
    """The warping an in-graph round applies to both models. temperature 0: greedy; top_k 0, top_p 1, min_p 0: off."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float


@dataclass(frozen=True)
class LoopRequest:
    """Rounds until a text ends. tokens: all that are committed. end: most that may be, at least one more.

    stops: ids of which the first to be emitted ends the text. seed, sample: key of the uniforms (`rng`).
    """

    tokens: Tokens
    end: int
    stops: frozenset[int]
    seed: int
    sample: int
    sampling: RoundSampling


class Loop(Protocol):
    """A loaded `loop` program."""

    @property
    def program(self) -> Program: ...

    def __call__(self, request: LoopRequest) -> list[list[int]]:
        """What each round emitted, gamma = the program's width - 1, the last ones shorter where `end` is near.

        The tokens of the last round may go on behind the one that ends the text.
        """
        ...


class Programs(Protocol):
    """The programs of one loaded bundle."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The `loop` programs that were loaded."""
        ...

    @property
    def rounds(self) -> tuple[Program, ...]:
        """The `round` programs that were loaded; each drafts, verifies and accepts in one call."""
        ...

    def verify(self, tokens: Tokens, position: int, rows: int) -> Logits:
        """Feed the verifier `tokens` `[S]` at cache rows `position ...`; logits `[rows, V]` of the last `rows` of them.

        Serves prefill chunks (`rows` 0 or 1), plain decoding (S 1, rows 1) and verification (rows = S).
        """
        ...

    def draft(self, drafter: str, tokens: Tokens, position: int) -> Logits:
        """Feed drafter `drafter` `tokens` `[S]`; its logits `[head_rows]` after the last of them."""
        ...

    def catchup(self, drafter: str, tokens: Tokens, position: int) -> None:
        """Feed drafter `drafter` known `tokens` `[S]`; nothing comes back."""
        ...

    def round(
        self,
        program: Program,
        tokens: Tokens,
        position: int,
        uniforms: NDArray[np.float32],
        sampling: RoundSampling,
    ) -> Tokens:
        """One whole round by `program` of `rounds`, gamma = its width - 1; the emitted ids `[1 .. gamma + 1]`.

        tokens: the last committed ones, as many as its input has (2, or gamma + 1 for a feature drafter).
        position: index of the first of them in the text.
        uniforms: `[2 gamma + 1]` in [0, 1): gamma to draft with, gamma to accept with, one for the last token.
        """
        ...

    def full_precision(self) -> Feed | None:
        """What feeds the verifier as `verify` does, but reads and writes fp32 keys and values of its own.

        The rows it writes are then rounded into the caches of `verify`. Loaded when first asked for. None: the bundle
        has no usable `recompute` program; nobody asks where the caches of `verify` are fp32.
        """
        ...

    def options(self, owner: str) -> frozenset[str]:
        """Request options, names out of `params.OPTIONS`, that steps of `owner` serve, acceptance being the host's."""
        ...

    def max_width(self, owner: str) -> int:
        """Most tokens one call may feed to `owner` ("verifier" or a drafter's key)."""
        ...

    def reset(self) -> None:
        """Zero every cache row, as after loading."""
        ...
