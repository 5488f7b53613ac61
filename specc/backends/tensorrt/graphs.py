"""The graphs of TensorRT programs: core graphs narrowed to 16 bits, in ops its parser reads."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.backends.record import CoreModel
from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from specc.legalize.tensorrt.feature_buffers import lift_feature_buffers, lifted_shape
from specc.passes.alias_updates import alias_updates
from specc.passes.bake_topology import bake_topology
from specc.passes.concat_tail import concat_tail
from specc.passes.fuse_round import fuse_round
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from specc_runtime.manifest import StateSpec

_HALVES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}


def stepping_graph(core: CoreModel) -> ir.Model:
    """A decoder that is fed S tokens and gives R rows of logits, both open: profiles of one engine fix them."""
    return _lowered(bake_topology(_narrowed(core), None))


def round_graph(
    verifier: CoreModel,
    drafter: CoreModel,
    gamma: int,
    head_ids: NDArray[np.integer[Any]] | None,
    *,
    in_place: bool = False,
) -> ir.Model:
    """A whole round, static, each cache written once: the drafter's rows wait in a tail until its last step.

    in_place: every step writes its rows where they belong, by an input of its own that is bound to the cache's memory.
    Nothing is copied; that the compiler keeps the order of the steps is documented nowhere.
    """
    fused = fuse_round(_narrowed(verifier), _narrowed(drafter), gamma, head_ids=head_ids)
    return _lowered(alias_updates(fused) if in_place else concat_tail(fused))


def lowered_state(core: CoreModel) -> tuple[StateSpec, ...]:
    """The state of a decoder's programs."""
    return tuple(replace(spec, shape=lifted_shape(spec.shape)) for spec in core.state())


def _lowered(graph: ir.Model) -> ir.Model:
    return lift_feature_buffers(legalize(graph, "tensorrt", OPS))


def _narrowed(core: CoreModel) -> ir.Model:
    """A copy that computes in 16 bits what is stored in them; 8-bit weights are multiplied in the caches' dtype."""
    scales = next((_HALVES[spec.dtype] for spec in core.state() if spec.dtype in _HALVES), None)
    return narrow_linears(narrow_attention(core.graph.clone()), scales=scales, wide_head=core.wide_head)
