"""Core graphs, static, in MIGraphX's dialect."""

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.core.functions.attention import ATTENTION, ATTENTION_QK_NORM, VISIBILITY
from specc.core.functions.linear import LINEAR, LINEAR_Q8
from specc.core.functions.thresholds import HIGHEST_THRESHOLD
from specc.core.topology import CHAIN, TOPOLOGY
from specc.errors import LegalizeError
from specc.legalize.migraphx import IN_PLACE_OPS, OPS, OPSET
from specc.legalize.migraphx.attention import IN_PLACE
from specc.legalize.rewriting import legalize
from specc.passes.flatten import flatten

IR_VERSION = 8  # the one that came with opset 17
_LOWERED = (ATTENTION, ATTENTION_QK_NORM, LINEAR, LINEAR_Q8, HIGHEST_THRESHOLD)
_SHARED_CONSTANT = 1 << 16  # values up to which equal constants become one: index tables that every layer reads


def lower(model: ir.Model, *, in_place: bool = False) -> ir.Model:
    """A core graph with static inputs, its topology baked in, rewritten in place into ops of `OPS`.

    in_place: caches are written row by row by GroupQueryAttention nodes of one position (MIGraphX 2.15).
    Raises LegalizeError for what has no form there: in place, a tree.
    """
    if in_place and _has_trees(model):
        raise LegalizeError("migraphx: caches written in place serve chains only; leave in_place_caches out")
    flatten(model, _LOWERED if _has_trees(model) else (*_LOWERED, VISIBILITY))
    ir_passes.IdentityEliminationPass()(model)
    for node in model.graph:
        if in_place and node.op_type in (ATTENTION, ATTENTION_QK_NORM):
            node.metadata_props[IN_PLACE] = "yes"
    legalize(model, "migraphx", OPS | IN_PLACE_OPS if in_place else OPS)
    ir_passes.CommonSubexpressionEliminationPass(size_limit=_SHARED_CONSTANT)(model)
    ir_passes.RemoveUnusedNodesPass()(model)
    model.graph.opset_imports[""] = OPSET
    model.ir_version = IR_VERSION
    return model


def _has_trees(model: ir.Model) -> bool:
    """Whether some baked topology is no chain, whose mask is then computed as the core graph says."""
    made = (value for node in model.graph for value in node.outputs)
    return any(value.metadata_props.get(TOPOLOGY, CHAIN) != CHAIN for value in made)
