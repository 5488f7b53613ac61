"""Checkpoint weights as a decoder's graph takes them: packed, checked, still unread."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.checkpoint.types import Weights, WeightTensor
from specc.core.initializers import lazy_initializer
from specc.errors import CheckpointError

_CHECKED = 1 << 20  # values looked at together: few enough to cost no memory


@dataclass(frozen=True)
class WeightLoader:
    """Makes initializers from the checkpoint tensors of one model.

    source: named in errors. prefix: of the initializers' names ("verifier.").
    """

    weights: Weights
    source: str
    prefix: str

    def load(self, name: str, part: str, sources: Sequence[tuple[str, tuple[int, ...]]]) -> ir.Value:
        """An initializer `name` made of checkpoint tensors stacked along axis 0, in their dtype (norms: fp32).

        sources: each tensor's checkpoint name and the shape it must have.
        Raises CheckpointError when one is missing or has another shape; reading it, when a value is not finite.
        """
        tensors = [self._checked(source, shape) for source, shape in sources]
        dtypes = {tensor.dtype for tensor in tensors}
        dtype = dtypes.pop() if len(dtypes) == 1 and part != "norm" else np.dtype(np.float32)
        shape = (sum(t.shape[0] for t in tensors), *tensors[0].shape[1:])

        def read() -> NDArray[np.generic]:
            arrays = [self._finite(tensor).astype(dtype, copy=False) for tensor in tensors]
            return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

        return lazy_initializer(self.prefix + name, part, shape, dtype, read)

    def _checked(self, name: str, shape: tuple[int, ...]) -> WeightTensor:
        tensor = self.weights.get(name)
        if tensor is None:
            raise CheckpointError(f"{self.source}: weight '{name}' is missing; the checkpoint is incomplete")
        if tensor.shape != shape:
            raise CheckpointError(
                f"{self.source}: weight '{name}' has shape {list(tensor.shape)}, config.json implies {list(shape)}"
            )
        return tensor

    def _finite(self, tensor: WeightTensor) -> NDArray[np.generic]:
        array = tensor.numpy()
        step = max(1, _CHECKED // max(1, math.prod(tensor.shape[1:])))
        if not all(np.isfinite(array[row : row + step]).all() for row in range(0, len(array), step)):
            raise CheckpointError(
                f"{self.source}: weight '{tensor.name}' holds values that are not finite; the checkpoint is damaged: "
                "download or export it again"
            )
        return array
