"""How likely drafted tokens are accepted, learnt round by round while old rounds are forgotten."""

from collections.abc import Sequence
from itertools import pairwise

MEMORY = 0.97  # weight a draft keeps when the next one comes: the estimate looks back about 30 drafts
PRIOR_ROUNDS = 8.0  # drafts the prior stands for
NEIGHBOUR_ROUNDS = 1.0  # drafts the position before stands for, where a position has few of its own
_LARGE = 1e100


class AcceptanceEstimate:
    """Position by position: how likely is it accepted, given that all before it were?

    Under block verification a round tells of position i only whether at least i tokens were accepted, which is what
    is estimated; where nothing is known yet, a position is as likely as the one before it.

    prior: probability that at least 1, 2, ... tokens are accepted. positions: of the longest draft.
    expected_tokens: tokens a round emits if it drafts 0, 1, 2, ... tokens.
    """

    def __init__(self, prior: Sequence[float], positions: int) -> None:
        reached = [1.0, *prior][: positions + 1]
        steps = [after / before if before else 0.0 for before, after in pairwise(reached)]
        weights = [PRIOR_ROUNDS * before for before in reached[:-1]]
        spare = [0.0] * (positions - len(steps))
        self._accepted = [weight * step for weight, step in zip(weights, steps, strict=True)] + spare
        self._seen = weights + spare
        self._weight = 1.0  # of the newest draft: instead of every older one shrinking, the new ones grow
        self.expected_tokens = self._expect()

    def record(self, drafted: int, accepted: int) -> None:
        """Learn from one draft. What ended it tells of one position more than was accepted, and of none behind."""
        if self._weight > _LARGE:
            self._rescale()
        weight = self._weight = self._weight / MEMORY
        for position in range(accepted):
            self._accepted[position] += weight
        for position in range(min(drafted, accepted + 1)):
            self._seen[position] += weight
        self.expected_tokens = self._expect()

    def _expect(self) -> list[float]:
        tokens = reached = 1.0
        likely, neighbour, expected = 0.5, NEIGHBOUR_ROUNDS * self._weight, [1.0]
        for accepted, seen in zip(self._accepted, self._seen, strict=True):
            likely = (accepted + neighbour * likely) / (seen + neighbour)
            reached *= likely
            tokens += reached
            expected.append(tokens)
        return expected

    def _rescale(self) -> None:
        self._accepted = [weight / self._weight for weight in self._accepted]
        self._seen = [weight / self._weight for weight in self._seen]
        self._weight = 1.0
