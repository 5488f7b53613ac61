"""What products run in, given how their operands are stored: the pieces of every backend's `computed`."""

from collections.abc import Callable
from dataclasses import dataclass

from specc.models.features import FUSING
from specc.options import PARTS
from specc.passes.head import TABLE
from specc.targets import Target

HALVES = ("bf16", "fp16")
_MULTIPLIED = frozenset({*PARTS, FUSING}) - {TABLE}


@dataclass(frozen=True)
class StoredPart:
    """Part of a model as it is stored.

    part: a row of the precision policy, or of the manifest's table. dtype: it is stored in. caches: dtype of the same
    model's caches.
    """

    part: str
    dtype: str
    caches: str

    @property
    def is_multiplied(self) -> bool:
        """Whether it is an operand of matrix products; rows of a table, norms and rotations are not."""
        return self.part in _MULTIPLIED

    @property
    def widened(self) -> str:
        """Its dtype where 16-bit floats are computed in fp32."""
        return "fp32" if self.dtype in HALVES else self.dtype


Computed = Callable[[Target, StoredPart], str]
"""The dtype that a part's products, or what else is done with it, run in on a target."""
