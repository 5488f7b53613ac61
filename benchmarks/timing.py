"""Shared by the benchmarks: two sides timed in turn, so that a drifting machine slows both alike."""

from collections.abc import Callable, Mapping
from statistics import median, quantiles


def interleaved(sides: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each side, run A B A B ... after one warm-up. A side returns the seconds it took."""
    for run in sides.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            times[name].append(run() * 1e3)
    return times


def spread(values: list[float]) -> str:
    """Median and quartiles."""
    low, _, high = quantiles(values, n=4)
    return f"{median(values):7.2f} [{low:.2f} .. {high:.2f}]"


def paired_ratio(a: list[float], b: list[float]) -> str:
    """Median and quartiles of a/b, pair by pair."""
    return spread([x / y for x, y in zip(a, b, strict=True)])
