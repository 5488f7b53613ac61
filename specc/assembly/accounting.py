"""What every part of a compile weighs, and what a drafter shares."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import onnx_ir as ir

from specc.backends.arithmetic import StoredPart
from specc.backends.record import CoreModel
from specc.bundle.weight_store import StoredWeight
from specc.core.functions.linear import LINEAR
from specc.core.initializers import part_of, stored_name
from specc.core.inspection import inputs_of
from specc.passes.head import HEAD, TABLE
from specc.passes.quantize_linears import SIGNED_ROWS_BOTH
from specc_runtime.manifest import FEATURES, FileEntry, PartPrecision, Program, StateSpec

_DTYPES = {
    ir.DataType.FLOAT: "fp32",
    ir.DataType.FLOAT16: "fp16",
    ir.DataType.BFLOAT16: "bf16",
    ir.DataType.UINT8: "int8",
    ir.DataType.INT8: "int8",
    ir.DataType.INT4: "int4",
    ir.DataType.FLOAT8E4M3FN: "fp8",
}
_STATES = {"float32": ("fp32", 4), "float16": ("fp16", 2), "bfloat16": ("bf16", 2)}  # name here, bytes
KV, FEATURE_ROWS = "kv", "feature_rows"  # parts that are state: caches, and what a drafter reads of its verifier
_CODES, _SCALE = ".codes", ".scale"
_BOTH = f".{SIGNED_ROWS_BOTH.name}b"  # in the names of codes that meet activations in 8 bits


def precision_table(
    weights: Mapping[str, StoredWeight], models: Iterable[CoreModel], computed: Callable[[StoredPart], str]
) -> tuple[PartPrecision, ...]:
    """Bytes by owner, part and stored dtype: all of the weights file but its padding, and each model's caches.

    weights: what the file holds; a weight that several graphs read counts for the first of them. computed: the dtype
    that the programs compute a part in. A table that is also multiplied as it is, as the head, counts as multiplied.
    """
    models = tuple(models)
    caches = {model.role: _state_dtype(state) for model in models if (state := _caches(model))}
    heads = {_narrow_head(model) for model in models}
    multiplied = {weight.owner for name, weight in weights.items() if name in heads and weight.part == TABLE}

    def row(owner: str, part: str, stored: str, size: int) -> PartPrecision:
        used_as = HEAD if part == TABLE and owner in multiplied else part
        runs_in = computed(StoredPart(used_as, stored, caches.get(owner, "fp32")))
        return PartPrecision(f"{owner}.{part}", stored, runs_in, size)

    totals: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for name, weight in weights.items():
        totals[weight.owner][weight.part, _stored(name, weight, weights)] += weight.tensor.nbytes
    states = {model.role: [state for state in model.state() if state.owner == model.role] for model in models}
    rows: list[PartPrecision] = []
    for owner in dict.fromkeys([*states, *totals]):
        for (part, stored), size in totals[owner].items():
            rows.append(row(owner, part, stored, size))
        for part, wanted in ((KV, False), (FEATURE_ROWS, True)):
            if state := [s for s in states.get(owner, ()) if (s.role == FEATURES) == wanted]:
                rows.append(row(owner, part, _state_dtype(state), sum(map(_state_bytes, state))))
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
        return _stored(base + _CODES, weights[base + _CODES], weights)
    if _BOTH in name:
        return "w8a8"
    return _DTYPES.get(weight.tensor.dtype, weight.tensor.dtype.name.lower())


def engine_copies(programs: Iterable[Program], files: Mapping[str, FileEntry]) -> str | None:
    """A sentence about the weights that built programs hold themselves, None if there are none."""
    sizes = {program.file: files[program.file].bytes for program in programs if program.built and not program.weights}
    if not sizes:
        return None
    listed = ", ".join(f"{file.rsplit('/', 1)[-1]} {size:,}" for file, size in sizes.items())
    return (
        f"{len(sizes)} engines hold a copy each of their weights: {sum(sizes.values()):,} bytes with kernels "
        f"({listed}); the weights file is for specc check"
    )


def _narrow_head(model: CoreModel) -> str | None:
    """The stored name of the weight that makes the logits, if it may be multiplied as it is stored."""
    logits = next((v for v in model.graph.graph.outputs if v.name == "logits"), None)
    head = None if logits is None else logits.producer()
    if model.wide_head or head is None or head.op_type != LINEAR:
        return None
    return stored_name(inputs_of(head)[1])


def _caches(model: CoreModel) -> list[StateSpec]:
    return [state for state in model.state() if state.owner == model.role and state.role != FEATURES]


def _state_dtype(state: Sequence[StateSpec]) -> str:
    return _STATES[state[0].dtype][0]


def _state_bytes(state: StateSpec) -> int:
    return _STATES[state.dtype][1] * prod(state.shape)
