"""What a core graph says about a text."""

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.oracle import Oracle
from specc.core.state_names import is_past, left_by
from specc.passes.bake_topology import bake_topology

State = dict[str, NDArray[Any]]
"""Caches and features by the name of the graph's input."""


class CoreText:
    """A decoder's core graph, run by the oracle over whole texts. Holds every weight that is not mapped from a file."""

    def __init__(self, graph: ir.Model) -> None:
        graph = bake_topology(graph.clone(), None)
        self._oracle = Oracle(graph)
        self._state = _empty_state(graph)

    def logits(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Logits after each token of `ids` `[n]`, fed at once from position 0: f32 `[n, V]`."""
        return self.feed(ids, 0, self.empty_state())[0]

    def empty_state(self) -> State:
        """Zeroed caches."""
        return dict(self._state)

    def feed(self, ids: NDArray[np.int64], position: int, state: State) -> tuple[NDArray[np.float32], State]:
        """Logits f32 `[n, V]` of tokens `[n]` fed at once at cache rows `position ...`, and the state they leave."""
        fed: dict[str, NDArray[Any]] = {
            "tokens": ids[None],
            "position": np.array([position], np.int64),
            "rows": np.arange(len(ids), dtype=np.int64),
        }
        left = self._oracle.run(fed | state)
        state = {name: left[left_by(name)] for name in state}
        return np.asarray(left["logits"][0], np.float32), state


def _empty_state(graph: ir.Model) -> State:
    return {
        str(value.name): np.zeros(tuple(value.shape.numpy()), value.dtype.numpy())
        for value in graph.graph.inputs
        if is_past(value.name) and value.shape is not None and value.dtype is not None
    }
