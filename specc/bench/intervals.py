"""How sure a mean is: Student's t for paired measurements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

CONFIDENCE = 0.95
LEAST_PAIRS = 3  # two pairs have an interval too, and it says nothing


@dataclass(frozen=True)
class Ratio:
    """A ratio of two times with the ends of its 95 % interval, over `pairs` pairs; None with too few for one."""

    value: float
    low: float | None
    high: float | None
    pairs: int


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """Geometric mean of a/b over pairs (a, b), and its interval from the spread of log(a/b); None without pairs.

    The logarithm makes half and twice weigh the same; its mean is near normal, so Student's t gives the interval.
    """
    logs = [math.log(a / b) for a, b in pairs]
    if not logs:
        return None
    centre = mean(logs)
    if len(logs) < LEAST_PAIRS:
        return Ratio(math.exp(centre), None, None, len(logs))
    margin = student_t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin), len(logs))


def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The t that a Student-t variable of `degrees` degrees of freedom stays within, on both sides, at `confidence`."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _held(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def _held(t: float, degrees: int) -> float:
    """P(|T| <= t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 if odd else 1, degrees - 1, 2):
        term *= cosine**2 * k / (k + 1)
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that `share` of `values` do not exceed, interpolated; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
