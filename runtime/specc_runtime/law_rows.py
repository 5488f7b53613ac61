"""Laws of some positions, one dense row each, that are cheap to rewrite when few columns of a row are not zero."""

import numpy as np
from numpy.typing import NDArray


class LawRows:
    """Rows that remember where they are not zero: replacing one sparse law by another touches a few cache lines of it.

    values: float32 `[rows, columns]`, to be read only.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.values = np.zeros((rows, columns), dtype=np.float32)
        self._written: list[NDArray[np.intp] | slice] = [slice(0)] * rows

    def put(self, row: int, columns: NDArray[np.intp] | int, masses: NDArray[np.float32] | int) -> None:
        """Make a row zero but for `columns`."""
        law = self.values[row]
        law[self._written[row]] = 0
        law[columns] = masses
        self._written[row] = np.atleast_1d(columns)

    def dense(self, row: int, columns: int) -> NDArray[np.float32]:
        """The first `columns` of a row, for the caller to fill whole."""
        self._written[row] = slice(columns)
        return self.values[row, :columns]
