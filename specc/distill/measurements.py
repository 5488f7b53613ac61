"""What is measured of a drafter while and after it is trained. Plain numbers: no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Acceptance:
    """Over rounds that begin at each held-out position of an answer.

    survival: for k = 1, 2, ... the probability that the first k drafted tokens are all accepted. first: acceptance of
    the first token; at T=1 from the laws themselves (sum of min(p, q)), so with less noise than survival[0].
    rounds: how many there were.
    """

    survival: tuple[float, ...]
    first: float
    rounds: int

    @property
    def per_position(self) -> tuple[float, ...]:
        """Acceptance at each position of a draft, given that all before it were accepted."""
        before = (1.0, *self.survival[:-1])
        return tuple(now / then if then else 0.0 for now, then in zip(self.survival, before, strict=True))

    def tokens_per_round(self, gamma: int) -> float:
        """Expected tokens of a round that drafts `gamma`, the verifier's own included, under token-wise acceptance."""
        return 1.0 + sum(self.survival[:gamma])


@dataclass(frozen=True)
class CurvePoint:
    """One evaluation on the way.

    seconds: of training so far. tokens: trained on so far, repeats counted. loss: mean since the point before, nats.
    first_greedy, first_sampled: acceptance of the first drafted token at T=0 and T=1. tokens_per_round: of 4 drafted
    tokens, mean of T=0 and T=1; the best is chosen by it.
    """

    step: int
    seconds: float
    tokens: int
    loss: float
    first_greedy: float
    first_sampled: float
    tokens_per_round: float
