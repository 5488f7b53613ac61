"""One timed answer, and all answers to one turn of one question."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from specc.speculation.rounds import rounds_of
from specc_runtime import Generation
from specc_runtime.stats import RoundRecord

SPECULATIVE, PLAIN = "speculative", "plain"


@dataclass(frozen=True)
class Sample:
    """An answer and what it took.

    prompt_tokens: of the whole prompt. prefilled, refilled: known tokens that verifier and drafter were fed.
    first_s: seconds to the first token. rest_s: from there to the last. rounds: none for other engines.
    """

    ids: tuple[int, ...]
    prompt_tokens: int
    first_s: float
    rest_s: float
    rounds: tuple[RoundRecord, ...] = ()
    prefilled: int = 0
    refilled: int = 0

    @property
    def token_s(self) -> float | None:
        """Seconds a token after the first, which is the prompt's; None if there is no other."""
        return self.rest_s / (len(self.ids) - 1) if len(self.ids) > 1 else None

    @property
    def steps(self) -> tuple[RoundRecord, ...]:
        """The rounds after the one that reads the prompt."""
        return tuple(r for r in self.rounds if r.verify_s)


@dataclass(frozen=True)
class Trial:
    """Answers to one turn, by side: SPECULATIVE, PLAIN, and any other engine's. turn: 1 for the first."""

    question: str
    category: str
    turn: int
    prompt: tuple[int, ...]
    samples: Mapping[str, Sample]


def sampled(generation: Generation) -> Sample:
    """Run `generation` to its end, timed from now. It must not hold tokens back (no stop strings)."""
    begin = first = perf_counter()
    rounds: list[RoundRecord] = []
    for record in rounds_of(generation):
        if not rounds:
            first = perf_counter()
        rounds.append(record)
    end, stats = perf_counter(), generation.stats
    return Sample(
        ids=tuple(generation.ids),
        prompt_tokens=generation.prompt_tokens,
        first_s=first - begin,
        rest_s=end - first,
        rounds=tuple(rounds),
        prefilled=stats.verifier_prefilled_tokens,
        refilled=stats.drafter_prefilled_tokens,
    )
