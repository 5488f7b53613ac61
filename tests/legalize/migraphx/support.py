"""Static decoders in MIGraphX's dialect."""

import onnx_ir as ir

from specc.backends.migraphx.lowering import lower
from specc.core.topology import Topology, chain
from specc.passes.bake_topology import bake_topology
from specc.passes.set_width import set_width


def static(model: ir.Model, width: int, topology: Topology | None = None) -> ir.Model:
    """A copy that is fed `width` tokens and gives the logits of each."""
    return bake_topology(set_width(model, width, width), topology or chain(width - 1))


def lowered(model: ir.Model, width: int, topology: Topology | None = None) -> ir.Model:
    """The same in the dialect."""
    return lower(static(model, width, topology))
