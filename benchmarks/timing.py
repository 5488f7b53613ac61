"""Shared by the benchmarks: two sides timed in turn, so that a drifting machine slows both alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles


def interleaved(sides: Mapping[str, Callable[[], int]], repeats: int) -> dict[str, list[float]]:
    """Milliseconds a token of each side, run A B A B ... after one warm-up. A side returns how many tokens it made."""
    for run in sides.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            start = time.perf_counter()
            tokens = run()
            times[name].append((time.perf_counter() - start) / tokens * 1e3)
    return times


def spread(values: list[float]) -> str:
    """Median and quartiles."""
    low, _, high = quantiles(values, n=4)
    return f"{median(values):7.2f} [{low:.2f} .. {high:.2f}]"


def paired_ratio(a: list[float], b: list[float]) -> str:
    """Median and quartiles of a/b, pair by pair."""
    return spread([x / y for x, y in zip(a, b, strict=True)])
