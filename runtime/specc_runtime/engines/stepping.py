"""The part of `Programs` that is the same for every engine: each model's steps, by its owner."""

from collections.abc import Mapping
from typing import Protocol

from specc_runtime.engines.base import Feed, Logits, Loop, Tokens
from specc_runtime.manifest import VERIFIER


class Step(Protocol):
    """Any number of tokens through one model's programs."""

    @property
    def max_width(self) -> int: ...

    @property
    def options(self) -> frozenset[str]: ...

    def __call__(self, tokens: Tokens, position: int, rows: int) -> Logits: ...


class SteppedPrograms:
    """steps: of the verifier and of each drafter that is a model."""

    loops: tuple[Loop, ...] = ()

    def __init__(self, steps: Mapping[str, Step]) -> None:
        self._steps = steps

    def verify(self, tokens: Tokens, position: int, rows: int) -> Logits:
        return self._steps[VERIFIER](tokens, position, rows)

    def draft(self, drafter: str, tokens: Tokens, position: int) -> Logits:
        logits: Logits = self._steps[drafter](tokens, position, 1)[0]
        return logits

    def catchup(self, drafter: str, tokens: Tokens, position: int) -> None:
        self._steps[drafter](tokens, position, 0)

    def full_precision(self) -> Feed | None:
        """None, but for engines that load a `recompute` program."""
        return None

    def options(self, owner: str) -> frozenset[str]:
        return self._steps[owner].options

    def max_width(self, owner: str) -> int:
        return self._steps[owner].max_width
