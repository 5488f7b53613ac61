"""What a core graph says about a text."""

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.oracle import Oracle
from specc.passes.bake_topology import bake_topology


class CoreText:
    """A decoder's core graph, run by the oracle over whole texts. Holds every weight that is not mapped from a file."""

    def __init__(self, graph: ir.Model) -> None:
        graph = bake_topology(graph.clone(), None)
        self._oracle = Oracle(graph)
        self._state = _empty_state(graph)

    def logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Logits after each token of `ids` `[n]`, fed at once from position 0: f32 `[n, V]`."""
        fed: dict[str, NDArray[Any]] = {
            "tokens": ids[None],
            "position": np.zeros(1, np.int64),
            "rows": np.arange(len(ids), dtype=np.int64),
        }
        return np.asarray(self._oracle.run(fed | self._state)["logits"][0], np.float32)


def _empty_state(graph: ir.Model) -> dict[str, NDArray[Any]]:
    """Zeroed caches."""
    return {
        str(value.name): np.zeros(tuple(value.shape.numpy()), value.dtype.numpy())
        for value in graph.graph.inputs
        if str(value.name).startswith("past.") and value.shape is not None and value.dtype is not None
    }
