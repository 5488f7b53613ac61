"""The core graphs of a compile, under the precision that was asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.assembly.sources import ModelSource
from specc.assembly.speculators import TrainedDrafter
from specc.backends.record import CoreModel
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.feature_drafter import build_feature_drafter
from specc.models.features import FUSING
from specc.options import CODED, Dtype, Part, Precision
from specc.passes.head import head_rows
from specc.passes.quantize_linears import quantize_linears
from specc.passes.running import run_passes
from specc.passes.store_weights import store_weights
from specc.passes.trim_head import trim_head
from specc_runtime.manifest import VERIFIER, ModelInfo

LINEAR_PARTS: tuple[Part, ...] = ("attention", "mlp", "head")
EMBEDDING: Part = "embedding"
_STATE = {"fp32": ir.DataType.FLOAT, "fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}


@dataclass(frozen=True)
class DrafterPlan:
    """A drafter to be built.

    name: as the user wrote it. head_ids: full ids its trimmed head keeps (ascending), or how many leading ids it keeps.
    trained: of a drafter that was trained for the verifier.
    """

    key: str
    name: str
    source: ModelSource
    context: int
    head_ids: NDArray[np.int32] | int
    trained: TrainedDrafter | None = None

    @property
    def reads_features(self) -> bool:
        """Whether it reads the verifier's features beside tokens."""
        return self.trained is not None and self.trained.features is not None

    def info(self) -> ModelInfo:
        """The manifest's record of its model."""
        info = self.source.info(self.context)
        return info if self.trained is None else self.trained.described(info)


def verifier_core(
    source: ModelSource,
    precision: Precision,
    cache_rows: int,
    drafters: Iterable[DrafterPlan] = (),
    *,
    row_scales: bool = False,
) -> CoreModel:
    """The verifier: pads cut off its head, every part stored as the policy says.

    drafters: whose features it keeps; what fuses them is stored as the drafter's linears are.
    row_scales: of 8-bit weights, see `quantize_linears`.
    """
    taps = [tap for d in drafters if d.trained is not None and (tap := d.trained.tap(d.key)) is not None]
    graph = build_decoder(
        source.spec,
        source.checkpoint.weights,
        source.checkpoint.path,
        VERIFIER,
        DecoderShape(cache_rows, state=_STATE[precision.kv]),
        source.weights_of,
        taps=taps,
    )
    dtypes: dict[str, Dtype] = {part: precision.dtype_of(part) for part in (*LINEAR_PARTS, EMBEDDING)}
    return _core(VERIFIER, graph, source.vocabulary.count, dtypes | {FUSING: precision.draft}, cache_rows, row_scales)


def drafter_core(
    plan: DrafterPlan,
    precision: Precision,
    cache_rows: int,
    verifier_rows: int | None = None,
    *,
    row_scales: bool = False,
) -> CoreModel:
    """A drafter: its linears as the draft part says, its embedding and caches as the verifier's.

    verifier_rows: rows of the verifier's caches, for features; None: as many as cache_rows.
    row_scales: of 8-bit weights, see `quantize_linears`.
    """
    graph = _drafter_graph(plan, DecoderShape(cache_rows, state=_STATE[precision.kv]), verifier_rows or cache_rows)
    dtypes: dict[str, Dtype] = dict.fromkeys(LINEAR_PARTS, precision.draft)
    return _core(plan.key, graph, plan.head_ids, dtypes | {EMBEDDING: precision.embedding}, cache_rows, row_scales)


def _drafter_graph(plan: DrafterPlan, shape: DecoderShape, verifier_rows: int) -> ir.Model:
    source, trained = plan.source, plan.trained
    weights, path = source.checkpoint.weights, source.checkpoint.path
    decoder = partial(build_decoder, source.spec, weights, path, plan.key, shape)
    if trained is None:
        return decoder(source.weights_of)
    tables = trained.tables(plan.key)
    if trained.features is None:
        return decoder(tables=tables)
    loader = trained.loader(plan.key)
    return build_feature_drafter(source.spec, trained.features, loader, plan.key, shape, tables, verifier_rows)


def _core(
    role: str,
    graph: ir.Model,
    head: NDArray[np.int32] | int,
    dtypes: Mapping[str, Dtype],
    cache_rows: int,
    row_scales: bool,
) -> CoreModel:
    stored: dict[str, str] = {part: dtype for part, dtype in dtypes.items() if dtype not in CODED}
    coded = {dtype: [part for part in dtypes if dtypes[part] == dtype] for dtype in CODED}
    rows = head if isinstance(head, int) else len(head)
    trimmed_already = head_rows(graph) == rows  # the checkpoint's own head may hold just these ids
    graph = run_passes(
        graph,
        [
            partial(trim_head, ids=rows if trimmed_already else head),
            partial(store_weights, dtype_of=stored),
            *(
                partial(quantize_linears, parts=parts, row_scales=row_scales, dtype=dtype)
                for dtype, parts in coded.items()
                if parts
            ),
        ],
    )
    wide_head = dtypes["head"] == "fp32"
    return CoreModel(role=role, graph=graph, head_rows=rows, cache_rows=cache_rows, wide_head=wide_head)
