"""Do the programs compute what their core graphs say?"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.assembly.quality import distance, log_softmax
from specc.bundle.layout import CORE_GRAPH
from specc.check.prompts import token_text
from specc.core.oracle import Oracle
from specc.passes.bake_topology import bake_topology
from specc.reports import CheckRow
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs
from specc_runtime.manifest import VERIFIER

TOKENS = 24
MAX_KL = {
    "plain": 1e-6,
    "8-bit": 3e-2,
}  # nats a token; 8-bit programs also quantise activations, the core graph does not
MIN_AGREEMENT = {"plain": 1.0, "8-bit": 0.85}


def check_core_agreement(bundle: Bundle) -> Iterator[CheckRow]:
    """Per model: KL of the program's law from its core graph's (same stored weights, reference evaluator), argmax agreement."""
    programs = load_programs(bundle)
    ids = token_text(bundle, TOKENS)
    for role in (VERIFIER, *(k for k, d in bundle.manifest.drafters.items() if d.kind == "model")):
        graph = load_core(bundle, role)
        expected = core_logits(graph, ids)
        if role == VERIFIER:
            found = np.array(programs.verify(ids, 0, len(ids)))
        else:
            found = np.stack([np.array(programs.draft(role, ids[i : i + 1], i)) for i in range(len(ids))])
        yield _row(role, graph, expected, found)


def load_core(bundle: Bundle, role: str) -> ir.Model:
    """A core graph of the bundle, weights mapped from its weights file, its topology an open chain."""
    graph = ir.load(bundle.path(CORE_GRAPH.format(role=role)))
    ir.external_data.set_base_dir(graph.graph, str(bundle.root))
    return bake_topology(graph, None)


def core_logits(graph: ir.Model, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Logits of every token of `ids`, fed at once: f32 `[len(ids), V]`."""
    feeds: dict[str, NDArray[Any]] = {
        "tokens": ids[None],
        "position": np.zeros(1, np.int64),
        "rows": np.arange(len(ids), dtype=np.int64),
    }
    oracle = Oracle(graph)
    return np.asarray(oracle.run(feeds | empty_state(graph))["logits"][0], np.float32)


def empty_state(graph: ir.Model) -> Mapping[str, NDArray[Any]]:
    """Zeroed caches."""
    return {
        value.name or "": np.zeros(tuple(value.shape.numpy()), value.dtype.numpy())
        for value in graph.graph.inputs
        if (value.name or "").startswith("past.") and value.shape is not None and value.dtype is not None
    }


def _row(role: str, graph: ir.Model, expected: NDArray[np.float32], found: NDArray[np.float32]) -> CheckRow:
    quantised = any(v.dtype == ir.DataType.UINT8 for v in graph.graph.initializers.values())
    kind = "8-bit" if quantised else "plain"
    measured = distance(log_softmax(expected), log_softmax(found))
    passed = measured["kl"] <= MAX_KL[kind] and measured["argmax_agreement"] >= MIN_AGREEMENT[kind]
    detail = (
        f"{kind}: KL {measured['kl']:.2g} (at most {MAX_KL[kind]:g}), argmax agreement "
        f"{measured['argmax_agreement']:.3f} (at least {MIN_AGREEMENT[kind]:g}), largest logit difference "
        f"{np.abs(expected - found).max():.2g} over {len(expected)} tokens"
    )
    return CheckRow(f"{role} against its core graph", passed, detail)
