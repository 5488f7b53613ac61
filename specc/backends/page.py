"""docs/backends.md: what each backend can do, read from its record and from the targets' files."""

from collections.abc import Mapping
from typing import Any

from specc.backends import known_backends, load_backend, usable_backends
from specc.backends.arithmetic import StoredPart
from specc.backends.record import DEEDS, Backend
from specc.options.precision import DTYPES, PRESETS, PrecisionPolicy
from specc.render import render
from specc.targets import Target, known_targets, load_target

CHECKPOINT = "bf16"  # what the page assumes of a checkpoint: most published ones are stored in it


def backends_page() -> str:
    """The Markdown text of the comparison page."""
    targets = [load_target(name) for name in known_targets()]
    sections = [backend_facts(load_backend(name), targets) for name in known_backends()]
    return render("backends.md", backends=sections, checkpoint_dtype=CHECKPOINT)


def backend_facts(backend: Backend, targets: list[Target]) -> dict[str, Any]:
    """Everything the page says of one backend, as plain values; `specc backends --json` prints them."""
    compiled = [target for target in targets if backend.name in usable_backends(target)]
    return {
        "name": backend.name,
        "summary": backend.summary.strip(),
        "programs": {kind: sorted(options) for kind, options in backend.programs.items()},
        "options": _programs_by_options(backend),
        "weights": _ordered(backend.weight_dtypes),
        "caches": _ordered(frozenset().union(*map(backend.state_dtypes, compiled))),
        "targets": [_target_facts(backend, target) for target in compiled],
        **{did: [vars(item) for item in backend.evidence if item.did == did] for did in DEEDS},
        "build_script": backend.build_script,
        "toolchain": list(backend.toolchain),
    }


def _programs_by_options(backend: Backend) -> list[tuple[str, str]]:
    """Program kinds that serve the same request options, and these."""
    kinds: dict[frozenset[str], list[str]] = {}
    for kind, options in backend.programs.items():
        kinds.setdefault(frozenset(options), []).append(f"`{kind}`")
    return [(", ".join(names), ", ".join(sorted(options))) for options, names in kinds.items()]


def _target_facts(backend: Backend, target: Target) -> dict[str, Any]:
    choice = "" if backend.name == target.default_backend else f" --backend {backend.name}"
    return {
        "name": target.name,
        "title": target.title,
        "architecture": target.architecture,
        "default": backend.name == target.default_backend,
        "command": f"specc compile MODEL --draft D --target {target.name}{choice} -o OUT",
        "precision": "reference" if backend.default_precision is None else backend.default_precision(target),
        "presets": {preset: _preset(preset, target, backend) for preset in PRESETS},
    }


def _preset(name: str, target: Target, backend: Backend) -> str:
    """A preset's dtypes on `target`, those computed in another dtype as `stored/computed`."""
    precision = PrecisionPolicy(name).resolve(target.dtypes, CHECKPOINT, backend.state_dtypes(target))
    if precision.kv not in backend.state_dtypes(target):
        return f"refused: no {precision.kv} caches"
    if precision.verifier_is_quantised and not backend.eight_bit_verifier:
        return "refused: int8 in drafters only"
    stored = {part: StoredPart(part, dtype, precision.kv) for part, dtype in precision.parts().items()}
    computed = {part: backend.computed(target, how) for part, how in stored.items()}
    parts: Mapping[str, str] = {
        part: how.dtype if computed[part] == how.dtype else f"{how.dtype}/{computed[part]}"
        for part, how in stored.items()
    }
    dtypes = dict.fromkeys(parts.values())
    if len(dtypes) == 1:
        return f"all {next(iter(dtypes))}"
    return "; ".join(f"{', '.join(p for p, d in parts.items() if d == dtype)} {dtype}" for dtype in dtypes)


def _ordered(dtypes: frozenset[str]) -> list[str]:
    return [dtype for dtype in DTYPES if dtype in dtypes]
