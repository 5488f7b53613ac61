"""Flat programs called with the arguments that their specs describe."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.backends.record import CoreModel
from specc.backends.xla.layout import Layout
from specc.backends.xla.machine import CPU
from specc.backends.xla.program import FlatProgram, step_program
from specc.core.inspection import static_shape, tensor_of
from specc.passes.head import head_rows
from specc_runtime.manifest import LAYER, WeightSpec

Array = NDArray[Any]


def core_of(graph: ir.Model, role: str = "verifier") -> CoreModel:
    """A graph as the pipeline hands it to a backend."""
    caches = [v for v in graph.graph.inputs if str(v.name).startswith("past.")]
    return CoreModel(role, graph, head_rows(graph), static_shape(caches[0])[-2] if caches else 0)


def weight_arrays(program: FlatProgram, cores: list[CoreModel]) -> list[Array]:
    """The weight arguments of a program, read from the graphs that have them."""
    found = {name: v for core in cores for name, v in core.graph.graph.initializers.items()}

    def array(spec: WeightSpec) -> Array:
        if LAYER not in spec.source:
            return tensor_of(found[spec.source]).numpy()[: spec.shape[0]]
        names = [spec.source.replace(LAYER, str(spec.first + i)) for i in range(spec.shape[0])]
        return np.stack([tensor_of(found[name]).numpy() for name in names])

    return [array(spec) for spec in program.weights]


def zero_state(program: FlatProgram) -> list[Array]:
    """Zeroed state arguments."""
    return [np.zeros(state.shape, state.dtype) for state in program.state]


class FlatRunner:
    """Feeds tokens to a decoder's programs, one for each width, and keeps its caches and its position."""

    def __init__(self, graph: ir.Model) -> None:
        self._core = core_of(graph)
        self._layout = Layout([self._core])
        self._made: dict[int, tuple[FlatProgram, Any]] = {}
        self.state: list[Any] = zero_state(self.program(1))
        self._weights = weight_arrays(self.program(1), [self._core])
        self.position = 0

    def program(self, width: int) -> FlatProgram:
        """The program that feeds `width` tokens and gives the logits of all."""
        if width not in self._made:
            program = step_program(self._core, self._layout, CPU, width, width)
            self._made[width] = program, program.jitted()
        return self._made[width][0]

    def feed(self, ids: Array) -> Array:
        """Logits f32[S, V] of every token of `ids`, written at the position, which moves behind them."""
        count = len(ids)
        program = self.program(count)
        inputs: Mapping[str, Array] = {
            "tokens": ids[None].astype(np.int32),
            "position": np.array([self.position], np.int32),
            "rows": np.arange(count, dtype=np.int32),
        }
        fed = [inputs[spec.name] for spec in program.inputs]
        logits, *self.state = self._made[count][1](*fed, *self.state, *self._weights)
        self.position += count
        return np.asarray(logits[0])
