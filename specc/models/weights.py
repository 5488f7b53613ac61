"""Checkpoint weights as a decoder's graph takes them: packed, checked, still unread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  (registers bfloat16 with numpy)
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.checkpoint.types import Weights
from specc.errors import CheckpointError

PART = "specc.part"  # metadata key: which row of the precision policy an initializer belongs to


@dataclass(frozen=True)
class WeightLoader:
    """Makes initializers from the checkpoint tensors of one model.

    source: named in errors. prefix: of the initializers' names ("verifier.").
    """

    weights: Weights
    source: str
    prefix: str

    def load(self, name: str, part: str, sources: Sequence[tuple[str, tuple[int, ...]]]) -> ir.Value:
        """An initializer `name` made of checkpoint tensors stacked along axis 0.

        sources: each tensor's checkpoint name and the shape it must have.
        Raises CheckpointError when one is missing or has another shape.
        """
        tensors = [self._checked(source, shape) for source, shape in sources]
        dtypes = {tensor.dtype for tensor in tensors}
        dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)
        shape = (sum(t.shape[0] for t in tensors), *tensors[0].shape[1:])

        def read() -> NDArray[np.generic]:
            if len(tensors) == 1:
                return tensors[0].numpy()
            return np.concatenate([tensor.numpy().astype(dtype, copy=False) for tensor in tensors])

        return lazy_initializer(self.prefix + name, part, shape, dtype, read)

    def _checked(self, name: str, shape: tuple[int, ...]):  # type: ignore[no-untyped-def]
        tensor = self.weights.get(name)
        if tensor is None:
            raise CheckpointError(f"{self.source}: weight '{name}' is missing; the checkpoint is incomplete")
        if tensor.shape != shape:
            raise CheckpointError(
                f"{self.source}: weight '{name}' has shape {list(tensor.shape)}, config.json implies {list(shape)}"
            )
        return tensor


def lazy_initializer(
    name: str, part: str, shape: Sequence[int], dtype: np.dtype, read: Callable[[], NDArray[np.generic]]
) -> ir.Value:
    """An initializer whose bytes are made by `read` each time they are asked for, and not kept."""

    def tensor() -> ir.Tensor:
        return ir.Tensor(np.ascontiguousarray(read()), name=name)

    lazy = ir.LazyTensor(tensor, ir.DataType.from_numpy(dtype), ir.Shape(shape), cache=False, name=name)
    return _initializer(name, part, lazy)


def initializer(name: str, part: str, array: NDArray[np.generic]) -> ir.Value:
    """An initializer that holds its values."""
    return _initializer(name, part, ir.Tensor(array, name=name))


def _initializer(name: str, part: str, tensor: ir.TensorProtocol) -> ir.Value:
    value = ir.Value(
        name=name, shape=ir.Shape(tensor.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    value.metadata_props[PART] = part
    return value
