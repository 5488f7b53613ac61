"""The shape of a draft: which drafted token hangs below which."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOPOLOGY = "specc.topology"  # metadata key of a baked visibility block: CHAIN or TREE
CHAIN, TREE = "chain", "tree"


@dataclass(frozen=True)
class Topology:
    """The rows of one verification: row 0 is the last committed token, row i + 1 the drafted node i.

    parents: for each drafted node the node it follows, -1 for the committed token; a parent comes before its child.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(not -1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError(f"parents {self.parents}: each must be -1 or an earlier node")

    @property
    def width(self) -> int:
        """Rows of a verification: drafted nodes and the committed token."""
        return len(self.parents) + 1

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    def depths(self) -> NDArray[np.int64]:
        """Position of each row relative to row 0. Shape `[width]`."""
        depths = np.zeros(self.width, np.int64)
        for node, parent in enumerate(self.parents):
            depths[node + 1] = depths[parent + 1] + 1
        return depths

    def block(self) -> NDArray[np.bool_]:
        """block[i, j]: row i sees row j (itself and its ancestors). Shape `[width, width]`."""
        block = np.eye(self.width, dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            block[node + 1] |= block[parent + 1]
        return block


def chain(gamma: int) -> Topology:
    """`gamma` drafted tokens in a row."""
    return Topology(tuple(range(-1, gamma - 1)))
