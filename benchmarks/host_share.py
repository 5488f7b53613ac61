"""The host's share of a round: `python benchmarks/host_share.py BUNDLE`.

host = everything between the engine's calls: Python, numpy, warping, acceptance. Reported at T = 1 and at T = 0.8 with
top-p 0.9, as a share of decoding time (prefill left out), over several sampled texts.
"""

import argparse
from statistics import median

from specc_runtime import Engine, SamplingParams

PROMPT = "Write a short story about a lighthouse keeper who finds a message in a bottle."
SETTINGS = {"T=1": {"temperature": 1.0}, "T=0.8, top-p 0.9": {"temperature": 0.8, "top_p": 0.9}, "greedy": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gamma", type=int)
    asked = parser.parse_args()
    engine = Engine.load(asked.bundle, threads=1)
    for name, options in SETTINGS.items():
        shares, per_round = [], []
        for seed in range(asked.repeats + 1):
            params = SamplingParams(max_new_tokens=asked.tokens, seed=seed, ignore_eos=True, **options)  # type: ignore[arg-type]
            stats = engine.generate(PROMPT, params, gamma=asked.gamma).finish().stats
            if seed:  # the first run warms up
                shares.append(stats.host_s / (stats.host_s + stats.verify_s + stats.draft_s))
                per_round.append(stats.host_s / stats.rounds * 1e3)
        print(
            f"{name}: host {median(shares):.1%} of a round (worst {max(shares):.1%}), "
            f"{median(per_round):.2f} ms a round"
        )


if __name__ == "__main__":
    main()
