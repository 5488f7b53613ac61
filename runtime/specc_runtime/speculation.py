"""The arithmetic of speculation: what a round emits, what it costs, and which draft length pays best.

Costs are in plain steps: 1 is the time of a round that drafts nothing. A round that costs c must emit more than c
tokens on average to gain anything: c is its break-even.
"""

from collections.abc import Sequence

from specc_runtime.manifest import Speculation


def expected_tokens(acceptance: Sequence[float]) -> list[float]:
    """Tokens a round emits when 0, 1, 2, ... are drafted: the accepted ones and one more.

    acceptance[i]: probability that at least i + 1 drafted tokens are accepted.
    """
    tokens = [1.0]
    for reached in acceptance:
        tokens.append(tokens[-1] + reached)
    return tokens


def round_costs(round_s: Sequence[float]) -> list[float]:
    """Costs of rounds that draft 0, 1, 2, ... tokens, from their seconds."""
    return [seconds / round_s[0] for seconds in round_s]


def predicted_speedups(measured: Speculation) -> list[float]:
    """Tokens a second over plain decoding's, for gamma 0, 1, 2, ...; rounds without a draft are plain steps."""
    rate = measured.draft_rate
    pairs = zip(expected_tokens(measured.acceptance), round_costs(measured.round_s), strict=True)
    return [(rate * tokens + 1 - rate) / (rate * cost + 1 - rate) for tokens, cost in pairs]


def best_gamma(speedups: Sequence[float], allowed: Sequence[int], least_gain: float) -> int:
    """The gamma of `allowed` with the highest speed-up; 0 if that is below `least_gain`."""
    best = max(allowed, key=lambda gamma: speedups[gamma], default=0)
    return best if best and speedups[best] >= least_gain else 0
