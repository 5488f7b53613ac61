"""A tiny model of the verifier's own family, through the same compiler and engine, in fp32: here numbers must agree."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc.assembly.core_text import CoreText
from specc.backends import load_backend
from specc.backends.record import Backend, CoreModel, EmitRequest
from specc.bundle.layout import CORE_CONFIG
from specc.bundle.staging import Staging
from specc.checkpoint.types import Weights
from specc.errors import CheckpointError, OptionError
from specc.models.config import INERT_FIELDS
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.layer import layer_weights
from specc.models.spec import DecoderSpec
from specc.progress import Progress
from specc.reports import CheckRow
from specc.targets import load_target
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs
from specc_runtime.manifest import VERIFIER

TOKENS, VOCABULARY, LAYERS, HIDDEN, INTERMEDIATE = 40, 128, 2, 64, 96
MAX_ERROR = 1e-4
SPREAD = 0.3  # standard deviation of the weights: large enough for errors to show


@dataclass(frozen=True)
class _Tensor:
    """A random weight."""

    name: str
    values: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def numpy(self) -> NDArray[Any]:
        return self.values


def check_twin(bundle: Bundle, progress: Progress) -> Iterator[CheckRow]:
    """Largest logit difference between the twin's program, fed step by step, and its core graph, fed at once.

    A row that says n/a where the backend makes no twin in fp32 that could be loaded right away.
    """
    backend = load_backend(bundle.manifest.backend)
    with progress.step("tiny twin"):
        if (reason := _no_twin_because(backend, bundle)) is not None:
            yield CheckRow("tiny twin", None, reason)
            return
        spec = _twin_spec(bundle)
        try:
            error = _twin_error(bundle, backend, spec)
        except OptionError as refusal:
            yield CheckRow("tiny twin", None, f"{backend.name} refuses it for {bundle.manifest.target}: {refusal}")
            return
    yield CheckRow(
        "tiny twin",
        error <= MAX_ERROR,
        f"{spec.model_type}, fp32: largest logit error {error:.2g} (at most {MAX_ERROR:g})",
    )


def _no_twin_because(backend: Backend, bundle: Bundle) -> str | None:
    if "fp32" not in backend.state_dtypes(load_target(bundle.manifest.target)):
        return f"{backend.name} has no caches in fp32"
    if backend.build_script is not None:
        return f"programs of {backend.name} don't load before a bundle's script has built them"
    return None


def _twin_error(bundle: Bundle, backend: Backend, spec: DecoderSpec) -> float:
    rows = TOKENS + backend.slack + 1
    graph = build_decoder(spec, _random_weights(spec), "tiny twin", VERIFIER, DecoderShape(rows))
    core = CoreModel(role=VERIFIER, graph=graph, head_rows=VOCABULARY, cache_rows=rows)
    ids = np.random.default_rng(1).integers(0, VOCABULARY, TOKENS)
    expected = CoreText(graph).logits(ids)
    with tempfile.TemporaryDirectory(prefix="specc-twin-") as folder:
        staging = Staging(Path(folder).resolve())
        request = EmitRequest(
            target=load_target(bundle.manifest.target),
            verifier=core,
            drafters={},
            head_ids={},
            gammas=(),
            prefill_width=TOKENS,
        )
        programs = backend.emit(request, staging)
        staging.write_graphs(lambda _: None)
        manifest = replace(bundle.manifest, programs=programs, drafters={})
        found = _fed_in_steps(Bundle(staging.root, manifest), ids)
    return float(np.abs(found - expected).max())


def _fed_in_steps(bundle: Bundle, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    programs = load_programs(bundle, threads=1)
    rows, start = [], 0
    for width in (7, 1, 1, 5, 2, 3, 1, 8, 4, len(ids)):
        chunk = ids[start : start + width]
        if len(chunk):
            rows.append(np.array(programs.verify(chunk, start, len(chunk))))
        start += len(chunk)
    return np.concatenate(rows)


def _twin_spec(bundle: Bundle) -> DecoderSpec:
    """The bundle's own config with small sizes; the ratio of query to kv heads, biases, norms and rope stay."""
    path = bundle.path(CORE_CONFIG)
    try:
        config: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}; re-compile the bundle") from error
    spec = describe(config, str(path), ignore=INERT_FIELDS | set(config))
    attention = spec.attention
    group = attention.heads // attention.kv_heads
    attention = replace(attention, heads=2 * group, kv_heads=2)
    return replace(
        spec,
        layers=min(spec.layers, LAYERS),
        hidden=HIDDEN,
        vocab_rows=VOCABULARY,
        attention=attention,
        mlp=replace(spec.mlp, intermediate=INTERMEDIATE),
    )


def _random_weights(spec: DecoderSpec) -> Weights:
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        spec.names.embedding: (spec.vocab_rows, spec.hidden),
        spec.names.head: (spec.vocab_rows, spec.hidden),
        spec.names.final_norm: (spec.hidden,),
    }
    for layer in range(spec.layers):
        shapes |= {name: shape for weight in layer_weights(spec, layer) for name, shape in weight.sources}
    return Weights(
        {name: _Tensor(name, random.normal(0, SPREAD, shape).astype(np.float32)) for name, shape in shapes.items()}
    )
