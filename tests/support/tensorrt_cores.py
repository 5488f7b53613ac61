"""Tiny core models as a TensorRT compile builds them, and requests for their programs."""

from typing import Any

import onnx_ir as ir

from specc.backends.record import CoreModel, EmitRequest
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.passes.quantize_linears import quantize_linears
from specc.passes.store_weights import store_weights
from specc.targets import load_target
from tests.models.support import VOCAB, random_weights, tiny_config

ROWS, PREFILL = 64, 16
PARTS = ("attention", "mlp", "head")
NAMES = {ir.DataType.FLOAT16: "fp16", ir.DataType.BFLOAT16: "bf16"}
F32 = ir.DataType.FLOAT


def core(
    role: str,
    family: str = "llama",
    state: ir.DataType = F32,
    *,
    weights: ir.DataType = F32,
    int8: bool = False,
    mlp: str | None = None,
    coded: str | None = None,
    seed: int = 0,
    **fields: Any,
) -> CoreModel:
    """A decoder of two layers (`num_hidden_layers`).

    weights: dtype of its linears. int8: in 8 bits instead. mlp: codes of its MLPs ("fp8", "int4"). coded: of all.
    """
    spec = describe(tiny_config(family, **fields), "tiny")
    graph = build_decoder(spec, random_weights(spec, seed), "tiny", role, DecoderShape(ROWS, state=state), "verifier")
    if int8:
        quantize_linears(graph, PARTS, row_scales=True)
    elif weights in NAMES:
        store_weights(graph, dict.fromkeys((*PARTS, "embedding"), NAMES[weights]))
    if coded is not None:
        quantize_linears(graph, PARTS, dtype=coded)
    if mlp is not None:
        quantize_linears(graph, ["mlp"], dtype=mlp)
    return CoreModel(role, graph, VOCAB, ROWS)


def request(
    target: str, state: ir.DataType = ir.DataType.FLOAT16, gammas: tuple[int, ...] = (2,), *, int8: bool = False
) -> EmitRequest:
    """Verifier and drafter, its first layer, for a target."""
    return EmitRequest(
        target=load_target(target),
        verifier=core("verifier", state=state, weights=state),
        drafters={"drafter": core("drafter", state=state, weights=state, int8=int8, num_hidden_layers=1)},
        head_ids={},
        gammas=gammas,
        prefill_width=PREFILL,
    )
