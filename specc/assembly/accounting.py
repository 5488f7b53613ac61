"""What every part of a compile weighs, and what a drafter shares."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import prod

import onnx_ir as ir

from specc.backends.record import CoreModel
from specc.bundle.weight_store import StoredWeight
from specc.core.initializers import part_of, stored_name
from specc_runtime.manifest import FEATURES, FileEntry, PartPrecision, Program, StateSpec

_DTYPES = {
    ir.DataType.FLOAT: "fp32",
    ir.DataType.FLOAT16: "fp16",
    ir.DataType.BFLOAT16: "bf16",
    ir.DataType.UINT8: "int8",
}
_STATES = {"float32": ("fp32", 4), "float16": ("fp16", 2), "bfloat16": ("bf16", 2)}  # name here, bytes
KV, FEATURE_ROWS = "kv", "feature_rows"  # parts that are state: caches, and what a drafter reads of its verifier
_EMBEDDING = "embedding"
_CODES, _SCALE = ".codes", ".scale"


def precision_table(
    weights: Mapping[str, StoredWeight], models: Iterable[CoreModel], *, narrow: bool = False
) -> tuple[PartPrecision, ...]:
    """Bytes by owner, part and stored dtype: all of the weights file but its padding, and each model's caches.

    weights: what the file holds; a weight that several graphs read counts for the first of them. narrow: whether the
    backend computes in 16 bits what is stored in them, and multiplies 8-bit weights in its caches' dtype.
    """
    models = tuple(models)
    halves = {model.role: _state_dtype(state) for model in models if narrow and (state := _caches(model))}
    totals: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for name, weight in weights.items():
        totals[weight.owner][weight.part, _stored(name, weight, weights)] += weight.tensor.nbytes
    states = {model.role: [state for state in model.state() if state.owner == model.role] for model in models}
    rows: list[PartPrecision] = []
    for owner in dict.fromkeys([*states, *totals]):
        for (part, stored), size in totals[owner].items():
            rows.append(PartPrecision(f"{owner}.{part}", stored, _computed(part, stored, halves.get(owner)), size))
        for part, wanted in ((KV, False), (FEATURE_ROWS, True)):
            if state := [s for s in states.get(owner, ()) if (s.role == FEATURES) == wanted]:
                stored, size = _state_dtype(state), sum(map(_state_bytes, state))
                rows.append(PartPrecision(f"{owner}.{part}", stored, _computed(part, stored, halves.get(owner)), size))
    return tuple(rows)


def shared_parts(verifier: CoreModel, drafter: CoreModel) -> tuple[str, ...]:
    """Parts of the drafter whose every weight is stored once for both."""
    ours = {stored_name(value) for value in verifier.graph.graph.initializers.values()}
    by_part: dict[str, list[bool]] = defaultdict(list)
    for value in drafter.graph.graph.initializers.values():
        by_part[part_of(value)].append(stored_name(value) in ours)
    return tuple(part for part, shared in by_part.items() if all(shared))


def _stored(name: str, weight: StoredWeight, weights: Mapping[str, StoredWeight]) -> str:
    """The dtype a weight is reported under; scales, and what is made of them, count with their codes."""
    base, scale, _ = name.partition(_SCALE)
    if scale and base + _CODES in weights:
        return "int8"
    return _DTYPES.get(weight.tensor.dtype, weight.tensor.dtype.name.lower())


def engine_copies(programs: Iterable[Program], files: Mapping[str, FileEntry]) -> str | None:
    """A sentence about the weights that built programs hold themselves, None if there are none."""
    sizes = {program.file: files[program.file].bytes for program in programs if program.built}
    if not sizes:
        return None
    listed = ", ".join(f"{file.rsplit('/', 1)[-1]} {size:,}" for file, size in sizes.items())
    return (
        f"{len(sizes)} engines hold a copy each of their weights: {sum(sizes.values()):,} bytes with kernels "
        f"({listed}); the weights file is for specc check"
    )


def _computed(part: str, stored: str, half: str | None) -> str:
    """half: dtype of the caches of a backend that computes in 16 bits; None: floats of 16 bits are widened to fp32.

    Rows of an embedding are always widened. Without `half` products run in 8 bits where weights are.
    """
    if half is None or part == _EMBEDDING:
        return "fp32" if stored in ("fp16", "bf16") else stored
    return half if stored == "int8" else stored


def _caches(model: CoreModel) -> list[StateSpec]:
    return [state for state in model.state() if state.owner == model.role and state.role != FEATURES]


def _state_dtype(state: Sequence[StateSpec]) -> str:
    return _STATES[state[0].dtype][0]


def _state_bytes(state: StateSpec) -> int:
    return _STATES[state.dtype][1] * prod(state.shape)
