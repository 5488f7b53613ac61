"""What the state of a graph is called: `past.{name}` as it comes in, `present.{name}` as the graph leaves it.

In a round, an owner stands in front: `drafter.past.0.key`.
"""

PAST, PRESENT = "past.", "present."


def is_past(name: str | None) -> bool:
    """Whether a value of a decoder's graph is state that comes in."""
    return name is not None and name.startswith(PAST)


def left_by(past: str) -> str:
    """The output that holds what a graph leaves of the state input `past`."""
    return past.replace(PAST, PRESENT, 1)
