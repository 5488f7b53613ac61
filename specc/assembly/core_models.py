"""The core graphs of a compile, under the precision that was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.assembly.sources import ModelSource
from specc.backends.record import CoreModel
from specc.models.decoder import DecoderShape, build_decoder
from specc.options import Dtype, Part, Precision
from specc.passes.quantize_linears import quantize_linears
from specc.passes.running import run_passes
from specc.passes.store_weights import store_weights
from specc.passes.trim_head import trim_head
from specc_runtime.manifest import VERIFIER

LINEAR_PARTS: tuple[Part, ...] = ("attention", "mlp", "head")
EMBEDDING: Part = "embedding"
_STATE = {"fp32": ir.DataType.FLOAT, "fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}


@dataclass(frozen=True)
class DrafterPlan:
    """A drafter to be built.

    name: as the user wrote it. head_ids: full ids its trimmed head keeps (ascending), or how many leading ids it keeps.
    """

    key: str
    name: str
    source: ModelSource
    context: int
    head_ids: NDArray[np.int32] | int


def verifier_core(source: ModelSource, precision: Precision, cache_rows: int) -> CoreModel:
    """The verifier: pads cut off its head, every part stored as the policy says."""
    dtypes = {part: precision.dtype_of(part) for part in (*LINEAR_PARTS, EMBEDDING)}
    return _core(VERIFIER, source, source.vocabulary.count, dtypes, precision, cache_rows)


def drafter_core(plan: DrafterPlan, precision: Precision, cache_rows: int) -> CoreModel:
    """A drafter: its linears as the draft part says, its embedding and caches as the verifier's."""
    dtypes = {EMBEDDING: precision.embedding} | dict.fromkeys(LINEAR_PARTS, precision.draft)
    return _core(plan.key, plan.source, plan.head_ids, dtypes, precision, cache_rows)


def _core(
    role: str,
    source: ModelSource,
    head: NDArray[np.int32] | int,
    dtypes: Mapping[Part, Dtype],
    precision: Precision,
    cache_rows: int,
) -> CoreModel:
    shape = DecoderShape(cache_rows, state=_STATE[precision.kv])
    graph = build_decoder(
        source.spec, source.checkpoint.weights, source.checkpoint.path, role, shape, source.weights_of
    )
    stored: dict[str, str] = {part: dtype for part, dtype in dtypes.items() if dtype != "int8"}
    quantised = [part for part, dtype in dtypes.items() if dtype == "int8"]
    graph = run_passes(
        graph,
        [
            partial(trim_head, ids=head),
            partial(store_weights, dtype_of=stored),
            partial(quantize_linears, parts=quantised),
        ],
    )
    rows = head if isinstance(head, int) else len(head)
    return CoreModel(role=role, graph=graph, head_rows=rows, cache_rows=cache_rows)
