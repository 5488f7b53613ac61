"""Are two texts the same, token by token?"""

from collections.abc import Sequence


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first index at which two lists of ids differ, or None if they are equal."""
    pairs = zip(one, other, strict=False)
    differing = (i for i, (a, b) in enumerate(pairs) if a != b)
    return next(differing, None if len(one) == len(other) else min(len(one), len(other)))
