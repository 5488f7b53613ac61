"""Precision: which dtype each part of verifier and drafter is stored in."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from specc.errors import OptionError, unknown

Dtype = Literal["fp32", "fp16", "bf16", "fp8", "int8", "int4", "w8a8"]
Part = Literal["attention", "mlp", "head", "kv", "embedding", "draft"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
PARTS: tuple[Part, ...] = get_args(Part)

_HALVES: tuple[Dtype, ...] = ("bf16", "fp16")
_FLOATS: tuple[Dtype, ...] = ("fp32", "fp16", "bf16")
CODED: tuple[Dtype, ...] = ("int8", "fp8", "int4", "w8a8")  # stored as codes with scales; w8a8: int8, activations too
_ALLOWED: Mapping[Part, tuple[Dtype, ...]] = {
    "attention": (*_FLOATS, "fp8", "int8"),
    "mlp": (*_FLOATS, "fp8", "int8", "int4"),
    "head": (*_FLOATS, "int8"),
    "kv": _FLOATS,
    "embedding": _FLOATS,
    "draft": (*_FLOATS, "fp8", "int8", "w8a8"),
}

# A rule is a dtype, or names what it is resolved from: "checkpoint" the checkpoint's 16-bit type if it has one,
# "target" the 16-bit type the target computes in, the checkpoint's own if it is among them; fp32 failing either.
_Rule = Dtype | Literal["checkpoint", "target"]
PRESETS: Mapping[str, Mapping[Part, _Rule]] = {
    "reference": dict.fromkeys(PARTS, "fp32"),
    "balanced": {
        "attention": "target",
        "mlp": "checkpoint",
        "head": "fp32",
        "kv": "target",
        "embedding": "checkpoint",
        "draft": "int8",
    },
    "int8": {
        "attention": "int8",
        "mlp": "int8",
        "head": "int8",
        "kv": "target",
        "embedding": "checkpoint",
        "draft": "int8",
    },
}
DEFAULT_PRECISION = "reference"


@dataclass(frozen=True)
class Precision:
    """The dtype each part's weights (kv: cache entries) are stored in; every part has one.

    attention: q, k, v and output projections. mlp: gate, up and down. head: the verifier's output head.
    draft: the drafter's linears and its own head; what it shares with the verifier keeps the verifier's dtype.
    name: what was asked for, for reports.
    """

    name: str
    attention: Dtype
    mlp: Dtype
    head: Dtype
    kv: Dtype
    embedding: Dtype
    draft: Dtype

    def dtype_of(self, part: Part) -> Dtype:
        """The stored dtype of `part`."""
        return self.parts()[part]

    def parts(self) -> dict[Part, Dtype]:
        """All parts with their stored dtypes, in the order of PARTS."""
        return {part: getattr(self, part) for part in PARTS}

    @property
    def verifier_is_quantised(self) -> bool:
        """Whether any of the verifier's weights are stored as codes: its law then differs from the checkpoint's."""
        return any(dtype in CODED for part, dtype in self.parts().items() if part != "draft")


@dataclass(frozen=True)
class PrecisionPolicy:
    """A preset and the parts set by hand, before target and checkpoint are known."""

    preset: str = DEFAULT_PRECISION
    overrides: Mapping[Part, Dtype] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the user would write it: `int8,head=fp32`."""
        return ",".join([self.preset, *(f"{part}={dtype}" for part, dtype in self.overrides.items())])

    def resolve(
        self, target_dtypes: Collection[str], checkpoint_dtype: str, state_dtypes: Collection[str] = _FLOATS
    ) -> Precision:
        """The dtype of every part.

        target_dtypes: what the target computes in (`Target.dtypes`). checkpoint_dtype: what most of the checkpoint's
        weights are stored in ("fp32", "fp16", "bf16"; any other counts as fp32). state_dtypes: what caches may have.
        """
        rules = {**PRESETS[self.preset], **self.overrides}
        parts = {part: _resolve_rule(rule, target_dtypes, checkpoint_dtype) for part, rule in rules.items()}
        for_state = set(target_dtypes) & set(state_dtypes)
        return Precision(self.name, **parts | {"kv": _resolve_rule(rules["kv"], for_state, checkpoint_dtype)})


def parse_precision(text: str) -> PrecisionPolicy:
    """The policy written as `PRESET`, `PART=DTYPE,...` (the rest from the default preset) or `PRESET,PART=DTYPE,...`.

    Raises OptionError: an unknown preset, part or dtype, a dtype the part is not built in, or a part set twice.
    """
    first, *rest = [item.strip() for item in text.split(",")]
    preset, assignments = (DEFAULT_PRECISION, [first, *rest]) if "=" in first else (first, rest)
    if preset in DTYPES and preset not in PRESETS:
        parts = ", ".join(part for part in PARTS if preset in _ALLOWED[part])
        raise OptionError(f"precision: {preset!r} is a dtype, not a preset; write PART={preset} (PART: {parts})")
    if preset not in PRESETS:
        raise OptionError("precision: " + unknown("preset", preset, PRESETS))
    overrides: dict[Part, Dtype] = {}
    for assignment in assignments:
        part, dtype = _parse_assignment(assignment)
        if part in overrides:
            raise OptionError(f"precision: {part!r} is set twice in {text!r}")
        overrides[part] = dtype
    return PrecisionPolicy(preset, overrides)


def _parse_assignment(text: str) -> tuple[Part, Dtype]:
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not equals:
        raise OptionError(f"precision: {text!r} is no assignment; write PART=DTYPE, e.g. head=fp32")
    part = next((known for known in PARTS if known == name), None)
    if part is None:
        raise OptionError("precision: " + unknown("part", name, PARTS))
    dtype = next((known for known in DTYPES if known == value), None)
    if dtype is None:
        raise OptionError(f"precision of {part}: " + unknown("dtype", value, _ALLOWED[part]))
    if dtype not in _ALLOWED[part]:
        raise OptionError(f"precision: {part} is not built in {dtype}; known: {', '.join(_ALLOWED[part])}")
    return part, dtype


def _resolve_rule(rule: _Rule, target_dtypes: Collection[str], checkpoint_dtype: str) -> Dtype:
    own: tuple[Dtype, ...] = tuple(dtype for dtype in _HALVES if dtype == checkpoint_dtype)
    match rule:
        case "checkpoint":
            return own[0] if own else "fp32"
        case "target":
            return next((dtype for dtype in own + _HALVES if dtype in target_dtypes), "fp32")
        case dtype:
            return dtype
