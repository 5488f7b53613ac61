"""Running a core graph with onnx's own reference evaluator: what every backend is compared with."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from specc.core.inspection import tensor_of
from specc.core.structure import without_weights

Array = NDArray[np.generic]


class Oracle:
    """A core graph ready to run. Weights are bound as inputs, so that mapped files stay mapped.

    weights: values of the graph's initializers by name; those left out are read from the graph.
    """

    def __init__(self, model: ir.Model, weights: Mapping[str, Array] | None = None) -> None:
        given = weights or {}
        self._weights: dict[str, Array] = {
            name: given[name] if name in given else tensor_of(initializer).numpy()
            for name, initializer in model.graph.initializers.items()
        }
        self._outputs = [str(v.name) for v in model.graph.outputs]
        structure = without_weights(model)
        _callees_first(structure)
        self._evaluator = ReferenceEvaluator(ir.to_proto(structure))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        values = self._evaluator.run(None, {**self._weights, **inputs})
        return dict(zip(self._outputs, cast(list[Array], values), strict=True))


def _callees_first(model: ir.Model) -> None:
    """Order the functions so that each stands after those it calls: the evaluator resolves them in file order."""
    functions, ordered = dict(model.functions), {}

    def place(identifier: ir.OperatorIdentifier) -> None:
        if identifier in ordered or identifier not in functions:
            return
        for node in functions[identifier]:
            place(node.op_identifier())
        ordered[identifier] = functions[identifier]

    for identifier in functions:
        place(identifier)
    model.functions.clear()
    model.functions.update(ordered)
