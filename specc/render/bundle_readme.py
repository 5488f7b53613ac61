"""The README.md every bundle carries: what it is, what is in it, how to run it, where it came from."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from specc.render.packages import pinned
from specc.render.quantities import byte_count
from specc.render.templates import render
from specc_runtime.manifest import DrafterInfo, Manifest, ModelInfo, Program

STATE_PARTS = ("kv", "feature_rows")  # of the precision table: memory while running, no weights


def bundle_readme(
    manifest: Manifest,
    chat: str | None = None,
    *,
    engine: Sequence[str] = ("onnxruntime",),
    system_packages: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    build_script: str | None = None,
) -> str:
    """The Markdown text. chat: a user's turn in the model's chat format, if it has one.

    engine, system_packages: packages of the engine, from PyPI (ONNX Runtime comes with the runtime) and of the system.
    environment: variables that the engine wants, by name.
    build_script: the bundle's file that builds its portable programs on the device; None: they need no building.
    `manifest.files` may lack the README itself: nothing in the text depends on it.
    """
    state = {part for part in manifest.precision if part.part.split(".")[-1] in STATE_PARTS}
    return render(
        "bundle_README.md",
        manifest=manifest,
        verifier=_model_text(manifest.verifier),
        drafters={key: _drafter_text(drafter) for key, drafter in manifest.drafters.items()},
        programs=[_program_row(program) for program in manifest.programs],
        any_portable=not all(program.built for program in manifest.programs),
        precision=[
            (part.part, part.stored, part.computed, byte_count(part.bytes), part.bytes) for part in manifest.precision
        ],
        weight_bytes=byte_count(sum(part.bytes for part in manifest.precision if part not in state)),
        state_bytes=byte_count(sum(part.bytes for part in state)),
        resident=None if manifest.resident_bytes is None else byte_count(manifest.resident_bytes),
        prompt=json.dumps(chat or "Once upon a time", ensure_ascii=False),
        is_chat=chat is not None,
        engine=[pinned(package, manifest.toolchain) for package in engine],
        system_packages=system_packages,
        environment=environment,
        build_script=build_script,
        quality=[(name, f"{value:.3g}") for name, value in manifest.quality.items()],
        toolchain=manifest.toolchain,
        provenance=list(_flat(manifest.provenance)),
    )


def _model_text(model: ModelInfo) -> str:
    return f"{model.name} ({model.model_type}, {model.layers} layers, {model.parameters:,} parameters)"


def _drafter_text(drafter: DrafterInfo) -> str:
    if drafter.model is None:
        return "n-gram lookup in the text so far"
    rows = f", head of {drafter.head_rows:,} tokens" if drafter.head_ids else ""
    shares = f"; shares {', '.join(drafter.shares)} with the verifier" if drafter.shares else ""
    return _model_text(drafter.model) + rows + shares


def _program_row(program: Program) -> dict[str, object]:
    return {
        "kind": program.kind,
        "drafter": program.drafter or "",
        "width": program.width if program.width is not None else f"1 to {program.max_width}",
        "accept": program.accept,
        "state": "built" if program.built else "portable",
        "file": program.file,
    }


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested provenance as dotted names and plain values; what is None or empty is left out."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif value not in (None, "", [], ()):
            yield name, value
