"""How many tokens to draft in the next round."""

from typing import Protocol

from specc_runtime.stats import Stats


class Controller(Protocol):
    """Chooses gamma before a round drafts anything, from what earlier rounds did."""

    def choose(self, stats: Stats) -> int:
        """Tokens to draft, 0 for a plain step. The loop drafts fewer where the context or the request ends."""
        ...


class FixedGamma:
    """The same gamma in every round."""

    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def choose(self, stats: Stats) -> int:
        return self._gamma
