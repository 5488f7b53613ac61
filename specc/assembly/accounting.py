"""What every part of a compile weighs, and what a drafter shares."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from specc.backends.record import CoreModel
from specc.core.initializers import part_of, stored_name
from specc_runtime.manifest import PartPrecision, StateSpec

_DTYPES = {
    ir.DataType.FLOAT: "fp32",
    ir.DataType.FLOAT16: "fp16",
    ir.DataType.BFLOAT16: "bf16",
    ir.DataType.UINT8: "int8",
}


def precision_table(verifier: CoreModel, drafters: Mapping[str, CoreModel]) -> tuple[PartPrecision, ...]:
    """Bytes by part and stored dtype, each weight counted at its first reader, and the caches."""
    seen: set[str] = set()
    rows: list[PartPrecision] = []
    for core in (verifier, *drafters.values()):
        for (part, stored), size in _part_bytes(core, seen).items():
            rows.append(PartPrecision(f"{core.role}.{part}", stored, _computed(stored), size))
        state = core.state()
        if state:
            rows.append(PartPrecision(f"{core.role}.kv", _state_dtype(state), "fp32", sum(map(_state_bytes, state))))
    return tuple(rows)


def shared_parts(verifier: CoreModel, drafter: CoreModel) -> tuple[str, ...]:
    """Parts of the drafter whose every weight is stored once for both."""
    ours = {name for name, *_ in _weights(verifier)}
    by_part: dict[str, list[bool]] = defaultdict(list)
    for name, part, *_ in _weights(drafter):
        by_part[part].append(name in ours)
    return tuple(part for part, shared in by_part.items() if all(shared))


def _part_bytes(core: CoreModel, seen: set[str]) -> dict[tuple[str, str], int]:
    """Bytes by (part, stored dtype), of weights not `seen` before. A scale counts with its codes, as int8."""
    totals: dict[tuple[str, str], int] = defaultdict(int)
    dtypes: dict[str, str] = {}
    weights = [w for w in _weights(core) if w[0] not in seen]
    for _, part, dtype, _ in weights:
        if dtype == "int8":
            dtypes[part] = dtype
    for name, part, dtype, size in weights:
        totals[part, dtypes.get(part, dtype)] += size
        seen.add(name)
    return totals


def _weights(core: CoreModel) -> Iterator[tuple[str, str, str, int]]:
    """Stored name, part, stored dtype and bytes of every initializer."""
    for value in core.graph.graph.initializers.values():
        if value.const_value is not None:
            dtype = _DTYPES.get(value.const_value.dtype, str(value.const_value.dtype))
            yield stored_name(value), part_of(value), dtype, value.const_value.nbytes


def _computed(stored: str) -> str:
    """Products run in 8 bits where weights are; everything else is widened to fp32 on this backend."""
    return "int8" if stored == "int8" else "fp32"


def _state_dtype(state: tuple[StateSpec, ...]) -> str:
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[state[0].dtype]


def _state_bytes(state: StateSpec) -> int:
    size = 4 if state.dtype == "float32" else 2
    for dim in state.shape:
        size *= dim
    return size
