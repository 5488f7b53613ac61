"""How devices share a verifier: tensor parallelism, told to XLA's partitioner by which axis of what is cut.

Rows of q, k, v, gate and up are cut, columns of what follows them, so that a layer needs two sums over devices
(Shoeybi et al. 2019, Megatron-LM). Weights that are packed in one become arguments of their own: a cut across them
would tear heads apart. A drafter's own weights are whole on every device; what it shares with the verifier is cut.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import onnx_ir as ir

from specc.backends.record import CoreModel
from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM
from specc.core.inspection import static_shape
from specc.errors import OptionError
from specc.targets import Target
from specc_runtime.manifest import FEATURES, LAYER, VERIFIER, StateSpec, WeightSpec

_PACKED = re.compile(r"\.(qkv|gate_up)(_bias)?(\.|$)")
_AFTER = re.compile(r"\.(output|down)(\.|$)")  # not their biases, which are added once
_TABLE = re.compile(r"\.(embedding|head)(\.|$)")
_HEADS_AXIS = -3  # of a cache


@dataclass(frozen=True)
class Shares:
    """devices: that share a verifier. rows: of the weights packed in one, by its name; empty: nothing is packed.

    Key and value heads that the devices don't divide are whole on each, and so are the caches of these.
    """

    devices: int
    rows: dict[str, tuple[int, ...]]
    cuts_keys: bool

    @classmethod
    def of(cls, core: CoreModel, target: Target) -> "Shares | None":
        """Of a verifier; None for one device. Raises OptionError: the target's devices can't share it."""
        if target.devices == 1:
            return None
        heads, kv_heads, size = _heads(core, target)
        intermediate = _intermediate(core)
        for what, count in (("attention heads", heads), ("rows of its MLP", intermediate)):
            if count % target.devices:
                fitting = [mesh for mesh in target.slices if count % replace(target, mesh=mesh).devices == 0]
                raise OptionError(
                    f"target {target.name}: {target.devices} devices can't share the verifier's {count} {what} evenly; "
                    f"take {' or '.join([*fitting, 'one chip'])}"
                )
        rows = {"qkv": (heads * size, kv_heads * size, kv_heads * size), "gate_up": (intermediate, intermediate)}
        return cls(target.devices, rows, cuts_keys=kv_heads % target.devices == 0)

    def weights(self, whole: WeightSpec) -> tuple[WeightSpec, ...]:
        """The arguments that a weight becomes, in the order of its rows."""
        if not whole.source.startswith(f"{VERIFIER}."):
            return (whole,)
        first = 1 if LAYER in whole.source else 0  # axis of its rows
        if packed := _PACKED.search(whole.source):
            return tuple(self._pieces(whole, packed[1], first))
        if _AFTER.search(whole.source):
            return (self._cut(whole, first + 1),)
        return (self._cut(whole, first),) if _TABLE.search(whole.source) else (whole,)

    def state(self, core: CoreModel, whole: StateSpec) -> StateSpec:
        """A cache as the devices have it: that of a drafter made of the verifier's own layers is cut, too."""
        verifiers = any(str(n).startswith(f"{VERIFIER}.layers.") for n in core.graph.graph.initializers)
        if whole.role == FEATURES or not verifiers or not self.cuts_keys:
            return whole
        return replace(whole, cut=len(whole.shape) + _HEADS_AXIS)

    def _pieces(self, whole: WeightSpec, name: str, axis: int) -> Iterator[WeightSpec]:
        start = 0
        for number, rows in enumerate(self.rows[name]):
            shape = (*whole.shape[:axis], rows, *whole.shape[axis + 1 :])
            piece = replace(whole, shape=shape, start=start)
            yield self._cut(piece, axis) if name != "qkv" or number == 0 or self.cuts_keys else piece
            start += rows

    def _cut(self, whole: WeightSpec, axis: int) -> WeightSpec:
        """Whole if there is no such axis, as a scale a row has none of columns, or it can't be cut evenly."""
        cut = axis < len(whole.shape) and whole.shape[axis] % self.devices == 0
        return replace(whole, cut=axis) if cut else whole


def _heads(core: CoreModel, target: Target) -> tuple[int, int, int]:
    """Query heads, key heads, and the size of one."""
    for function in core.graph.functions.values():
        for node in function:
            if node.op_type in (ATTENTION, ATTENTION_QK_NORM):
                heads, kv_heads, size = (node.attributes[n].as_int() for n in ("heads", "kv_heads", "head_dim"))
                return heads, kv_heads, size
    raise OptionError(
        f"target {target.name}: the verifier's attention is not in a form that devices can share; take one chip"
    )


def _intermediate(core: CoreModel) -> int:
    packed: ir.Value = next(v for n, v in core.graph.graph.initializers.items() if ".gate_up" in n)
    return static_shape(packed)[0] // 2
