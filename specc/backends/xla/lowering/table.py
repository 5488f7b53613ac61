"""The table of lowerings, and what a lowering is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as ir

from specc.backends.xla.machine import Machine
from specc.core import DOMAIN
from specc.errors import LegalizeError

Value = Any
"""A numpy array (known while tracing) or a JAX array (computed by the program)."""

_NARROWED = {
    ir.DataType.INT64: np.dtype(np.int32),
    ir.DataType.UINT64: np.dtype(np.uint32),
    ir.DataType.DOUBLE: np.dtype(np.float32),
}


@dataclass(frozen=True)
class Call:
    """One node being lowered.

    attributes: references to the enclosing function's attributes resolved. xp: numpy where every input is known while
    tracing, else jax.numpy. body: evaluates the body of the function that the node calls.
    """

    node: ir.Node
    attributes: Mapping[str, ir.Attr]
    xp: ModuleType | Any
    machine: Machine
    body: Callable[..., Sequence[Value]]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value; `default` where the node leaves it out."""
        found = self.attributes.get(name)
        return default if found is None else found.value

    def dtype(self, of: ir.DataType | int) -> np.dtype[Any]:
        """A dtype as it is computed in: what the program computes has 32 bits at most."""
        kind = ir.DataType(of)
        return _NARROWED[kind] if self.xp is jnp and kind in _NARROWED else kind.numpy()

    def known(self, value: Value, what: str) -> np.ndarray[Any, Any]:
        """An input that decides a shape. Raises LegalizeError if it depends on what the program is fed."""
        if isinstance(value, jax.Array):
            raise LegalizeError(
                f"xla: {what} of {self.node.op_type} '{self.node.name}' depends on data, and XLA compiles static shapes"
            )
        return np.asarray(value)


Lowering = Callable[..., Any]
LOWERINGS: dict[tuple[str, str], Lowering] = {}


def lowers(*ops: str, domain: str = "") -> Callable[[Lowering], Lowering]:
    """Register a lowering: it takes the Call and the node's inputs (None where left out), and gives the outputs."""

    def register(lowering: Lowering) -> Lowering:
        for op in ops:
            LOWERINGS[domain, op] = lowering
        return lowering

    return register


def lowers_function(name: str) -> Callable[[Lowering], Lowering]:
    """Register a lowering for a function of domain `specc`, instead of its body."""
    return lowers(name, domain=DOMAIN)


def is_float(value: Value) -> bool:
    """Whether a value's dtype is a floating one, 16-bit ones of ml_dtypes included."""
    kind = np.dtype(value.dtype)
    return bool(np.issubdtype(kind, np.floating)) or kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)


def axes(values: Sequence[int] | np.ndarray[Any, Any], rank: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    return tuple(int(a) % rank if rank else 0 for a in np.asarray(values).reshape(-1))
