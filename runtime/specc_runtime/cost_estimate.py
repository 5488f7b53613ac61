"""What rounds cost, measured while they run: each draft length against a plain step."""

from collections import deque
from collections.abc import Sequence

WINDOW = 5  # newest rounds of a draft length that are looked at: their median ignores what else the machine does
LEAST_EXCESS = 0.01  # cost above a plain step that a drafted token is taken to have at least, before it was timed


class CostEstimate:
    """Costs of rounds that draft 0, 1, 2, ... tokens, in plain steps.

    A draft length that was timed costs what was timed. The others follow the shape of the prior: its excess over a
    plain step, scaled as the newest timed length was off.

    prior: expected costs; entry 0 is 1. plain_s: expected seconds of a plain step, 0 if nobody knows.
    """

    def __init__(self, prior: Sequence[float], plain_s: float = 0.0) -> None:
        self.plain_s = plain_s
        self._excess = [max(cost - 1, LEAST_EXCESS * drafted) for drafted, cost in enumerate(prior)]
        self._windows: list[deque[float]] = [deque(maxlen=WINDOW) for _ in prior]
        self._timed: dict[int, float] = {}  # draft length -> median seconds
        self._untimed = list(range(1, len(self._excess)))
        self.costs = [1 + excess for excess in self._excess]

    def record(self, drafted: int, seconds: float) -> None:
        """Learn from one round."""
        window = self._windows[drafted]
        window.append(seconds)
        typical = self._timed[drafted] = sorted(window)[len(window) // 2]
        if not drafted:
            self.plain_s = typical
            for other, other_s in self._timed.items():
                self.costs[other] = other_s / typical
        elif 0 in self._timed:
            self.costs[drafted] = typical / self.plain_s
            if drafted in self._untimed:
                self._untimed.remove(drafted)
            scale = max(0.0, self.costs[drafted] - 1) / self._excess[drafted]
            for other in self._untimed:
                self.costs[other] = 1 + scale * self._excess[other]
