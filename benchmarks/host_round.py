"""What the host does in a round: Python, numpy and acceptance, with engine time taken out.

    python -m benchmarks.host_round [--gamma 4] [--rounds 400]

Models are tables, so the engine costs nothing that is counted. With 16 tokens the law's arithmetic is negligible and
the rest is the loop's own; with 49152 it is SmolLM2's. Acceptance is what a drafter that is right half the time gives.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from specc_runtime import SamplingParams
from tests.support.table_programs import LogitsOf, table_engine

SMALL, LARGE = 16, 49152
CASES = {
    "greedy": {},
    "T=1": {"temperature": 1.0},
    "T=0.8, top_p 0.9": {"temperature": 0.8, "top_p": 0.9},
    "T=0.8, top_k 50": {"temperature": 0.8, "top_k": 50},
    "T=1, penalties": {"temperature": 1.0, "repetition_penalty": 1.1},
}


@dataclass(frozen=True)
class Cost:
    """Host microseconds per round and per emitted token, and tokens per round."""

    round_us: float
    token_us: float
    tokens_per_round: float


def model(vocabulary: int, seed: int) -> LogitsOf:
    """Eight fixed laws, chosen by the last token: p ~ rank**-1.8, the likeliest token holds about a half."""
    random = np.random.default_rng(seed)
    ranks = np.array([random.permutation(vocabulary) for _ in range(8)]) + 1
    rows = (-1.8 * np.log(ranks)).astype(np.float32)
    return lambda tokens: rows[tokens[-1] % 8]


def measure(vocabulary: int, options: dict[str, float], gamma: int, rounds: int, *, plain: bool) -> Cost:
    """The best of five generations of about `rounds` rounds."""
    verifier, drafter = model(vocabulary, 0), model(vocabulary, 0)

    def half_right(tokens: np.ndarray) -> np.ndarray:
        return drafter(tokens if len(tokens) % 2 else tokens + 1)

    context = rounds * (gamma + 1) + 16
    engine, _ = table_engine(verifier, half_right, vocabulary=vocabulary, context=context)
    params = SamplingParams(max_new_tokens=context, seed=1, **options)
    costs = []
    for _ in range(5):
        s = engine.generate([1, 2, 3], params, gamma=gamma, plain=plain).finish().stats
        costs.append(Cost(s.host_s / s.rounds * 1e6, s.host_s / s.emitted_tokens * 1e6, s.tokens_per_round))
    return min(costs, key=lambda cost: cost.round_us)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    print(f"{'vocabulary':>10}  {'request':<24}{'us/round':>10}{'us/token':>10}{'tokens/round':>14}")
    for vocabulary in (SMALL, LARGE):
        for name, options in CASES.items():
            for plain in (False, True):
                cost = measure(vocabulary, options, arguments.gamma, arguments.rounds, plain=plain)
                label = f"{name}, plain" if plain else name
                figures = f"{cost.round_us:>10.0f}{cost.token_us:>10.0f}{cost.tokens_per_round:>14.2f}"
                print(f"{vocabulary:>10}  {label:<24}{figures}")


if __name__ == "__main__":
    main()
