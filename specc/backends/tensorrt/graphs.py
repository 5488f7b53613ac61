"""The graphs of TensorRT programs: core graphs narrowed to 16 bits, in ops its parser reads."""

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.backends.record import CoreModel
from specc.errors import UnsupportedError
from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from specc.passes.bake_topology import bake_topology
from specc.passes.concat_tail import concat_tail
from specc.passes.fuse_round import fuse_round
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from specc_runtime.manifest import FEATURES

_HALVES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}


def stepping_graph(core: CoreModel) -> ir.Model:
    """A decoder that is fed S tokens and gives R rows of logits, both open: profiles of one engine fix them."""
    return legalize(bake_topology(_narrowed(core), None), "tensorrt", OPS)


def round_graph(
    verifier: CoreModel, drafter: CoreModel, gamma: int, head_ids: NDArray[np.integer[Any]] | None
) -> ir.Model:
    """A whole round, static, each cache written once: the drafter's rows wait in a tail until its last step."""
    fused = fuse_round(_narrowed(verifier), _narrowed(drafter), gamma, head_ids=head_ids)
    return legalize(concat_tail(fused), "tensorrt", OPS)


def _narrowed(core: CoreModel) -> ir.Model:
    """A copy that computes in 16 bits what is stored in them; 8-bit weights are multiplied in the caches' dtype."""
    state = core.state()
    if any(spec.role == FEATURES for spec in state):
        raise UnsupportedError(
            "tensorrt: a drafter that reads the verifier's features needs a buffer of three dimensions, and TensorRT "
            "updates caches of four only; give another --draft"
        )
    scales = next((_HALVES[spec.dtype] for spec in state if spec.dtype in _HALVES), None)
    return narrow_linears(narrow_attention(core.graph.clone()), scales=scales, wide_head=core.wide_head)
