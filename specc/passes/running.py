"""Running passes: each is named, checked and, on request, dumped."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from specc.core.structure import without_weights
from specc.errors import PassError
from specc.passes.invariants import broken_invariants

Pass = Callable[[ir.Model], ir.Model]


def run_passes(model: ir.Model, passes: Sequence[Pass], *, dump: Path | None = None) -> ir.Model:
    """`passes` applied one after the other; options are bound with functools.partial.

    dump: a folder that gets the graph, as text and without weights, before the first pass and after each.
    Raises PassError, naming the pass and those before it, when a pass raises or breaks an invariant of the core graph.
    """
    done: list[str] = []
    _check(model, "the graph that the passes were given")
    _dump(model, dump, "00_input")
    for run in passes:
        name = pass_name(run)
        after = f" after {done}" if done else ""
        try:
            model = run(model)
        except Exception as error:
            raise PassError(f"pass '{name}' failed{after}: {error}") from error
        _check(model, f"pass '{name}'{after}")
        done.append(name)
        _dump(model, dump, f"{len(done):02d}_{name}")
    return model


def pass_name(run: Pass | partial[Any]) -> str:
    """The name of the function that is the pass."""
    while isinstance(run, partial):
        run = run.func
    return getattr(run, "__name__", type(run).__name__)


def _check(model: ir.Model, culprit: str) -> None:
    broken = list(broken_invariants(model))
    if broken:
        raise PassError(f"{culprit} broke the core graph '{model.graph.name}': {'; '.join(broken[:3])}")


def _dump(model: ir.Model, folder: Path | None, name: str) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    text = onnx.printer.to_text(ir.to_proto(without_weights(model)))
    (folder / f"{name}.onnxtxt").write_text(text, encoding="utf-8")
