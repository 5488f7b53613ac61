"""One generation, timed, and what is told about it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specc_runtime.generation import Generation


@dataclass(frozen=True)
class Timed:
    """A finished generation. first_s: seconds to its first token. rest_s: from there to its last."""

    generation: Generation
    first_s: float
    rest_s: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second once the prompt is read: the first token is the prompt's."""
        tokens = len(self.generation.ids) - 1
        return tokens / self.rest_s if tokens > 0 and self.rest_s > 0 else 0.0

    def record(self) -> dict[str, Any]:
        """Everything a program may want to know, ready for JSON."""
        generation = self.generation
        return {
            "text": generation.text,
            "ids": list(generation.ids),
            "finish_reason": generation.finish_reason,
            "prompt_tokens": generation.prompt_tokens,
            "seed": generation.seed,
            "first_token_s": self.first_s,
            "tokens_per_s": self.tokens_per_s,
            "stats": generation.stats.as_dict(),
        } | self._logprobs()

    def _logprobs(self) -> dict[str, Any]:
        entries = self.generation.logprobs
        return {} if entries is None else {"logprobs": [entry._asdict() for entry in entries]}

    def figures(self) -> dict[str, str]:
        """The same in short, as a person reads it. Full verification points are told of if there were any."""
        stats = self.generation.stats
        drafted = stats.spec_decode_num_draft_tokens
        figures = {
            "tokens": f"{len(self.generation.ids)} ({self.generation.finish_reason})",
            "tokens/s": f"{self.tokens_per_s:.1f}",
            "first token after": f"{self.first_s:.2f} s",
            "accepted": f"{stats.acceptance_rate:.1%} of {drafted}" if drafted else "nothing drafted",
            "tokens per round": f"{stats.tokens_per_round:.2f}",
            "rounds": str(stats.rounds),
        }
        if stats.full_verifications:
            figures["full verifications"] = f"{stats.full_verifications} in {stats.full_verification_s:.2f} s"
            figures["largest logit difference"] = f"{stats.largest_logit_difference:.3g}"
        return figures


def timed(start: Callable[[], Generation]) -> Timed:
    """Run the generation that `start` makes to its end."""
    begin = time.perf_counter()
    generation = start()
    next(generation, None)
    first = time.perf_counter()
    generation.finish()
    return Timed(generation, first - begin, time.perf_counter() - first)
