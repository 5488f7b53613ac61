"""What verifying S tokens costs against one: `python benchmarks/verify_widths.py BUNDLE [--past N]`.

Interleaved, one engine thread; prints milliseconds and the ratio to S = 1, medians and quartiles.
"""

import argparse
import time

import numpy as np
from timing import interleaved, paired_ratio, spread

from specc_runtime.bundle import open_bundle
from specc_runtime.engines import load_programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle")
    parser.add_argument("--past", type=int, default=128)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 3, 5, 8])
    parser.add_argument("--repeats", type=int, default=60)
    asked = parser.parse_args()
    bundle = open_bundle(asked.bundle)
    programs = load_programs(bundle, threads=1)
    rows = bundle.manifest.verifier.vocab_rows
    ids = np.random.default_rng(0).integers(0, rows, asked.past + max(asked.widths))
    for start in range(0, asked.past, programs.max_width("verifier")):
        programs.verify(ids[start : min(start + programs.max_width("verifier"), asked.past)], start, 0)

    def step(width: int) -> float:
        start = time.perf_counter()
        programs.verify(ids[asked.past : asked.past + width], asked.past, width)
        return time.perf_counter() - start

    times = interleaved({str(w): lambda w=w: step(w) for w in asked.widths}, asked.repeats)  # type: ignore[misc]
    print(f"{bundle.manifest.precision_name}, past {asked.past}, 1 thread")
    for width, values in times.items():
        print(f"S = {width:>2}: {spread(values)} ms, ratio to S = 1: {paired_ratio(values, times['1'])}")


if __name__ == "__main__":
    main()
