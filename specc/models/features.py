"""What a feature drafter reads of its verifier (EAGLE-3, Li et al. 2025): some residual streams, fused into one row.

The rows live in a buffer `[B, cache_rows, H]` that verifier and drafter share, row i for the token at cache row i. The
verifier writes the rows of the tokens it is fed; the drafter writes its own prediction of the row after those. So a row
is true from the verifier's step on, and a prediction is overwritten by the step that verifies it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from specc.checkpoint.speculator import FeatureReading
from specc.core.functions.linear import linear
from specc.models.step_graph import F32, StepGraph
from specc.models.weights import WeightLoader
from specc_runtime.manifest import FEATURES

FUSING = "features"  # precision part of the matrix that fuses them


@dataclass(frozen=True)
class FeatureTap:
    """Where a verifier's residual streams are read, and the drafter's weights that fuse them.

    role: the drafter's key. reading, loader: of the drafter. verifier_layers: how many the verifier has.
    verifier_hidden, hidden: columns of the verifier's stream and of a fused row. epsilon: of the drafter's norms.
    """

    role: str
    reading: FeatureReading
    loader: WeightLoader
    verifier_layers: int
    verifier_hidden: int
    hidden: int
    epsilon: float

    def record(self, graph: StepGraph, streams: Sequence[ir.Value]) -> None:
        """Write the fed tokens' rows. streams: f32[B, S, verifier_hidden] before each layer, and after the last."""
        shape = graph.shape
        past = graph.state(f"{FEATURES}.{self.role}", [shape.batch, shape.cache_rows, self.hidden], F32)
        graph.leave(past, graph.body.op("TensorScatter", past, self._fused(graph, streams), graph.position, axis=-2))

    def _fused(self, graph: StepGraph, streams: Sequence[ir.Value]) -> ir.Value:
        body, columns = graph.body, self.verifier_hidden
        read = [streams[layer] for layer in sorted(self.reading.resolved_layers(self.verifier_layers))]
        if self.reading.fc_norm:
            read = [self._normed(graph, stream, f"fc_norm.{i}", columns) for i, stream in enumerate(read)]
        joined = read[0] if len(read) == 1 else body.op("Concat", *read, axis=-1)
        if self.reading.norm_before_fc:
            joined = self._normed(graph, joined, "input_norm", len(read) * columns)
        fc = graph.weight("fc", FUSING, [("fc.weight", (self.hidden, len(read) * columns))], self.loader)
        return graph.call(linear(), joined, fc)

    def _normed(self, graph: StepGraph, stream: ir.Value, name: str, columns: int) -> ir.Value:
        weight = graph.weight(name, "norm", [(f"{name}.weight", (columns,))], self.loader)
        return graph.body.op("RMSNormalization", stream, weight, axis=-1, epsilon=self.epsilon)
