"""Store weights in the dtypes the precision policy gives their parts."""

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.core.functions.linear import LINEAR
from specc.core.initializers import PART, derived, part_of, stored_name
from specc.core.inspection import static_shape, tensor_of
from specc.errors import OptionError
from specc.passes.head import HEAD, TABLE, drop_unused

DTYPES: Mapping[str, np.dtype[Any]] = {
    "fp32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
LARGEST_FP16 = 65504.0
_ALWAYS_FP32 = frozenset({"norm", "rope"})

Use = tuple[ir.Node, int]


def store_weights(model: ir.Model, dtype_of: Mapping[str, str]) -> ir.Model:
    """Initializers of the parts in `dtype_of` are cast to "fp32", "fp16" or "bf16", each when it is read.

    A cast weight is renamed, so that one name never stands for two contents. Norms and rope tables stay in fp32. Where
    the head is the embedding table, or its first rows, each use is cast by its own part; a head that was to be fp32
    reads a table left in the checkpoint's 16 bits, which hold the same values.
    Reading a weight that fp16 can't hold raises OptionError.
    """
    if wrong := (set(dtype_of) & _ALWAYS_FP32) | (set(dtype_of.values()) - set(DTYPES)):
        raise ValueError(f"can't store {sorted(wrong)}: norm and rope stay fp32, the rest is one of {sorted(DTYPES)}")
    graph = model.graph
    for value in list(graph.initializers.values()):
        for part, uses in _uses_by_part(value).items():
            name = dtype_of.get(part)
            if name is None or DTYPES[name] == _dtype(value) or _widens_kept_table(graph, value, part, dtype_of):
                continue
            cast = _cast(value, part, name)
            cast = graph.initializers.setdefault(str(cast.name), cast)
            for node, index in uses:
                node.replace_input_with(index, cast)
        if part_of(value) == TABLE and not _uses_by_part(value)[TABLE]:
            value.metadata_props[PART] = HEAD
    drop_unused(graph)
    return model


def _uses_by_part(value: ir.Value) -> Mapping[str, Sequence[Use]]:
    """A weight's uses; a table that is also the head serves two parts."""
    part, uses = part_of(value), [(use.node, use.idx) for use in value.uses()]
    if part != TABLE:
        return {part: uses}
    head = [use for use in uses if use[0].op_type == LINEAR]
    return {TABLE: [use for use in uses if use not in head], HEAD: head}


def _widens_kept_table(graph: ir.Graph, value: ir.Value, part: str, dtype_of: Mapping[str, str]) -> bool:
    """Whether a head that was to be fp32 reads the bytes of an embedding table that stays as it is, in 16 bits."""
    table = graph.initializers.get(stored_name(value))
    if part != HEAD or dtype_of[HEAD] != "fp32" or table is None or part_of(table) != TABLE:
        return False
    return TABLE not in dtype_of or DTYPES[dtype_of[TABLE]] == _dtype(value)


def _cast(value: ir.Value, part: str, name: str) -> ir.Value:
    tensor = tensor_of(value)

    def read() -> NDArray[Any]:
        array = tensor.numpy()
        if name == "fp16":
            _check_fp16(array, str(value.name), part)
        return array.astype(DTYPES[name])

    return derived(value, name, part, DTYPES[name], static_shape(value)[1], read)


def _check_fp16(array: NDArray[Any], name: str, part: str) -> None:
    largest = max(float(array.max()), -float(array.min()))
    if not largest <= LARGEST_FP16:
        raise OptionError(
            f"precision: weight '{name}' holds {largest:g}, fp16 ends at {LARGEST_FP16:g}; store {part} as bf16 or fp32"
        )


def _dtype(value: ir.Value) -> np.dtype[Any]:
    return tensor_of(value).dtype.numpy()
