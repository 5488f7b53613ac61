"""What a generation did: drafts, acceptances, tokens and where the time went, under vLLM's metric names."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class RoundRecord:
    """One round. accepted: drafted tokens emitted. Times are wall-clock seconds.

    draft_s, verify_s: inside the engine, host_s: the runtime's own work. prefill_s: for `prefilled` known tokens the
    verifier was fed; refill_s: for `refilled` ones of the drafter. A round that only prefills has no verify_s.
    """

    drafted: int
    accepted: int
    emitted: int
    draft_s: float = 0.0
    verify_s: float = 0.0
    host_s: float = 0.0
    prefill_s: float = 0.0
    refill_s: float = 0.0
    prefilled: int = 0
    refilled: int = 0

    @property
    def round_s(self) -> float:
        """The round's seconds without what the drafter had to catch up on."""
        return self.draft_s + self.verify_s + self.host_s


@dataclass
class Stats:
    """Running counts of one or more generations. Times are wall-clock seconds.

    spec_decode_num_drafts: rounds that drafted at least one token. ..._num_draft_tokens: tokens drafted.
    ..._num_accepted_tokens: drafted tokens emitted. ..._per_pos: those at each place of the draft, first place first.
    rounds: verifier calls that emitted, plain steps included. emitted_tokens: all tokens given out.
    ..._prefilled_tokens: known tokens a model was fed: prompts, and for the drafter rows it had missed.
    full_verifications: caches recomputed at full verification points, the seconds that took, and the largest absolute
    difference between a logit of the incremental cache and of the new one.
    verify_s, draft_s, prefill_s: inside the engine; refill_s: the drafter's part of prefill_s.
    host_s: the runtime's own work.
    last_round: the newest round; None before the first has ended.
    """

    spec_decode_num_drafts: int = 0
    spec_decode_num_draft_tokens: int = 0
    spec_decode_num_accepted_tokens: int = 0
    spec_decode_num_accepted_tokens_per_pos: list[int] = field(default_factory=list)
    rounds: int = 0
    emitted_tokens: int = 0
    verifier_prefilled_tokens: int = 0
    drafter_prefilled_tokens: int = 0
    full_verifications: int = 0
    full_verification_s: float = 0.0
    largest_logit_difference: float = 0.0
    prefill_s: float = 0.0
    refill_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    host_s: float = 0.0
    last_round: RoundRecord | None = None

    def record_round(self, drafted: int, accepted: int, emitted: int) -> None:
        """Count one round. A text that ends inside a round counts what it gave out: `accepted` <= `emitted`."""
        self.rounds += 1
        self.emitted_tokens += emitted
        self.spec_decode_num_drafts += drafted > 0
        self.spec_decode_num_draft_tokens += drafted
        self.spec_decode_num_accepted_tokens += accepted
        per_position = self.spec_decode_num_accepted_tokens_per_pos
        per_position.extend([0] * (drafted - len(per_position)))
        for position in range(accepted):
            per_position[position] += 1
        self.last_round = RoundRecord(drafted, accepted, emitted)

    def record_verification(self, difference: float, seconds: float) -> None:
        """Count one full verification point."""
        self.full_verifications += 1
        self.full_verification_s += seconds
        self.largest_logit_difference = max(self.largest_logit_difference, difference)

    @property
    def acceptance_rate(self) -> float:
        """Accepted drafted tokens per drafted token; 0 before the first draft."""
        return self.spec_decode_num_accepted_tokens / max(1, self.spec_decode_num_draft_tokens)

    @property
    def tokens_per_round(self) -> float:
        """Emitted tokens per round; 0 before the first round. Plain decoding is 1."""
        return self.emitted_tokens / max(1, self.rounds)

    def as_dict(self) -> dict[str, Any]:
        """Every count, time and ratio by name, ready for JSON; the last round, a detail, is left out."""
        totals = {name: value for name, value in asdict(self).items() if name != "last_round"}
        return {**totals, "acceptance_rate": self.acceptance_rate, "tokens_per_round": self.tokens_per_round}
