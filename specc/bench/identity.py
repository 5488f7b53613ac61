"""Do two sides give the same tokens? At temperature 0 they should."""

from collections.abc import Sequence
from dataclasses import dataclass

from specc.bench.samples import PLAIN, SPECULATIVE, Trial
from specc.speculation.differences import first_difference


@dataclass(frozen=True)
class Difference:
    """Where the first answer that differs does: its question, turn, and the index of the token."""

    question: str
    turn: int
    token: int


@dataclass(frozen=True)
class Identity:
    """identical of `compared` answers; first: the first that is not. Turns after a difference are not compared."""

    compared: int
    identical: int
    first: Difference | None


def identity(trials: Sequence[Trial], side: str = SPECULATIVE, other: str = PLAIN) -> Identity:
    """Compare the answers of `side` with `other`'s. A question is left at its first difference: prompts differ then."""
    compared = identical = 0
    first: Difference | None = None
    parted: set[str] = set()
    for trial in trials:
        if trial.question in parted:
            continue
        compared += 1
        token = first_difference(trial.samples[side].ids, trial.samples[other].ids)
        if token is None:
            identical += 1
            continue
        parted.add(trial.question)
        first = first or Difference(trial.question, trial.turn, token)
    return Identity(compared, identical, first)
