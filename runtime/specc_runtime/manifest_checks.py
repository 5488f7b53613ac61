"""What must hold between the fields of a manifest before anyone acts on it.

The types are known to be right here. Each check names the place and what is wrong, in one line.
"""

import re
from collections.abc import Iterable
from math import prod

from specc_runtime.errors import ManifestError
from specc_runtime.manifest import (
    FEATURES,
    MANIFEST_NAME,
    MAX_THREADS,
    RECOMPUTED,
    VERIFIER,
    DrafterInfo,
    Manifest,
    ModelInfo,
    Program,
    Speculation,
    TokenizerInfo,
)

_INTEGERS = ("bool", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_FLOATS = ("float8_e4m3fn", "float16", "bfloat16", "float32", "float64")
DTYPES = frozenset(_INTEGERS + _FLOATS)
MAX_TENSOR_ELEMENTS = 2**40
MAX_PATH = 1024
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


def check_manifest(manifest: Manifest) -> None:
    """Raises ManifestError at the first contradiction, unsafe path or size out of bounds."""
    _check_numbers(manifest)
    for path, entry in manifest.files.items():
        check_bundle_path(path, "files")
        if path.casefold() == MANIFEST_NAME:
            raise ManifestError(f"files: {MANIFEST_NAME} can't list itself")
        if entry.bytes < 0 or len(entry.sha256) != 64 or not set(entry.sha256) <= set("0123456789abcdef"):
            raise ManifestError(f"files[{path!r}]: bytes must be 0 or more and sha256 64 hex digits")
    _check_model("verifier", manifest.verifier)
    for key, drafter in manifest.drafters.items():
        _check_name("drafters", key)
        _check_drafter(f"drafters.{key}", key, drafter, manifest)
    for key, topology in manifest.topologies.items():
        _check_name("topologies", key)
        for node, parent in enumerate(topology.parents):
            if not -1 <= parent < node:
                raise ManifestError(f"topologies.{key}.parents[{node}]: {parent} is not an earlier node or -1")
    _check_programs(manifest)
    _check_recomputing(manifest)
    if manifest.tokenizer is not None:
        _check_tokenizer(manifest.tokenizer, manifest)


def check_bundle_path(path: str, place: str) -> None:
    """Raises ManifestError unless `path` is relative, of plain parts joined by '/', on every operating system."""
    parts = path.split("/")
    bad_part = any(part in ("", ".", "..") for part in parts)
    bad_character = any(c in '\\:*?"<>|' or not c.isprintable() for c in path)
    if bad_part or bad_character or len(path) > MAX_PATH:
        raise ManifestError(f"{place}: path {path[:80]!a} must be relative, plain, inside the bundle")


def _check_numbers(manifest: Manifest) -> None:
    if manifest.context < 1 or manifest.slack < 0:
        raise ManifestError(f"context {manifest.context} must be 1 or more and slack {manifest.slack} 0 or more")
    if manifest.threads is not None and not 1 <= manifest.threads <= MAX_THREADS:
        raise ManifestError(f"threads: {manifest.threads} must be between 1 and {MAX_THREADS}")
    if manifest.resident_bytes is not None and manifest.resident_bytes < 1:
        raise ManifestError(f"resident_bytes: {manifest.resident_bytes} must be 1 or more")
    for gamma in (manifest.gamma, *manifest.gammas):
        if not 0 <= gamma <= 1024:
            raise ManifestError(f"gammas: {gamma} must be between 0 and 1024")
    if manifest.gamma and manifest.gamma not in manifest.gammas:
        raise ManifestError(f"gamma: {manifest.gamma} is not one of gammas {list(manifest.gammas)}")
    for index, part in enumerate(manifest.precision):
        if part.bytes < 0:
            raise ManifestError(f"precision[{index}].bytes: {part.bytes} must be 0 or more")


def _check_model(place: str, model: ModelInfo) -> None:
    for name in ("vocab_rows", "context"):
        if getattr(model, name) < 1:
            raise ManifestError(f"{place}.{name}: {getattr(model, name)} must be 1 or more")
    for name in ("layers", "hidden_size", "parameters"):
        if getattr(model, name) < 0:
            raise ManifestError(f"{place}.{name}: {getattr(model, name)} must be 0 or more")


def _check_drafter(place: str, key: str, drafter: DrafterInfo, manifest: Manifest) -> None:
    if key == VERIFIER:
        raise ManifestError(f"drafters: a drafter can't be called {VERIFIER!r}")
    if (drafter.kind == "model") != (drafter.model is not None):
        raise ManifestError(f"{place}.model: must be given for kind model, and only for it")
    if drafter.features and drafter.kind != "model":
        raise ManifestError(f"{place}.features: only a drafter of kind model can read features")
    if drafter.model is not None:
        _check_model(f"{place}.model", drafter.model)
    if (drafter.head_ids is None) != (drafter.head_rows is None):
        raise ManifestError(f"{place}: head_ids and head_rows must be given together")
    if drafter.head_rows is not None and not 1 <= drafter.head_rows <= manifest.verifier.vocab_rows:
        raise ManifestError(f"{place}.head_rows: {drafter.head_rows} must be between 1 and the verifier's vocab_rows")
    if drafter.head_ids is not None:
        _check_listed(drafter.head_ids, f"{place}.head_ids", manifest)
    if drafter.measured is not None:
        _check_speculation(f"{place}.measured", drafter.measured, max(manifest.gammas, default=0))


def _check_speculation(place: str, measured: Speculation, longest: int) -> None:
    if len(measured.acceptance) < longest or len(measured.round_s) != len(measured.acceptance) + 1:
        raise ManifestError(
            f"{place}: acceptance must reach the longest gamma, {longest}, and round_s have one entry more"
        )
    if min(measured.round_s) <= 0 or measured.refill_s < 0 or measured.tokens < 0:
        raise ManifestError(f"{place}: round_s must be above 0, refill_s and tokens 0 or more")
    if any(not 0 <= share <= 1 for share in (*measured.acceptance, measured.draft_rate)):
        raise ManifestError(f"{place}: acceptance and draft_rate must lie between 0 and 1")


def _check_programs(manifest: Manifest) -> None:
    _check_unique("programs: id", [program.id for program in manifest.programs])
    buffers: dict[tuple[str, str], tuple[str, tuple[int, ...]]] = {}
    for index, program in enumerate(manifest.programs):
        place = f"programs[{index}]"
        _check_program(place, program, manifest)
        for position, state in enumerate(program.state):
            where = f"{place}.state[{position}]"
            if state.owner != VERIFIER and state.owner not in manifest.drafters:
                raise ManifestError(f"{where}.owner: {state.owner!r} is neither {VERIFIER!r} nor a drafter")
            _check_tensor(where, state.dtype, state.shape)
            layout = (state.dtype, state.shape)
            if buffers.setdefault((state.owner, state.role), layout) != layout:
                raise ManifestError(f"{where}: {state.owner} {state.role!r} has another dtype or shape elsewhere")
        _check_unique(f"{place}.state: owner and role", [f"{state.owner} {state.role}" for state in program.state])
        _check_features(place, program, manifest)


def _check_features(place: str, program: Program, manifest: Manifest) -> None:
    """A step of the verifier that leaves a drafter's features out would leave stale ones behind."""
    kept = {state.owner for state in program.state if state.role == FEATURES}
    for key, drafter in manifest.drafters.items():
        concerned = program.drafter == key or program.kind in ("prefill", "verify", "recompute", "round", "loop")
        if (drafter.features and concerned) != (key in kept):
            found = "has" if key in kept else "lacks"
            raise ManifestError(f"{place}: {found} the state 'features' of drafter {key!r}; re-compile the bundle")


def _check_recomputing(manifest: Manifest) -> None:
    """What is recomputed replaces what `verify` reads, row by row."""
    caches = {
        (state.owner, state.role): state.shape
        for program in manifest.programs
        if program.kind == "verify"
        for state in program.state
    }
    for index, program in enumerate(manifest.programs):
        if program.kind == "recompute":
            found = {(state.owner, state.role.removeprefix(RECOMPUTED)): state.shape for state in program.state}
            if found != caches:
                raise ManifestError(f"programs[{index}]: its caches are not those of the verify programs; re-compile")


def _check_program(place: str, program: Program, manifest: Manifest) -> None:
    _check_listed(program.file, f"{place}.file", manifest)
    if program.stablehlo is not None:
        _check_listed(program.stablehlo, f"{place}.stablehlo", manifest)
    if program.executable is not None:
        _check_listed(program.executable.file, f"{place}.executable.file", manifest)
        if min(program.executable.sizes.values(), default=0) < 0:
            raise ManifestError(f"{place}.executable.sizes: {dict(program.executable.sizes)} must be 0 or more")
    if program.batch < 1 or not 1 <= program.max_width <= 2**20:
        raise ManifestError(f"{place}: batch {program.batch} and max_width {program.max_width} must be 1 or more")
    if program.width is not None and not 1 <= program.width <= program.max_width:
        raise ManifestError(f"{place}.width: {program.width} must be between 1 and max_width {program.max_width}")
    if program.kind in ("draft", "catchup", "round") and program.drafter is None:
        raise ManifestError(f"{place}.drafter: missing for kind {program.kind}")
    if program.drafter is not None and program.drafter not in manifest.drafters:
        raise ManifestError(f"{place}.drafter: {program.drafter!r} is not in drafters")
    if program.topology is not None and program.topology not in manifest.topologies:
        raise ManifestError(f"{place}.topology: {program.topology!r} is not in topologies")
    for table in ("inputs", "outputs"):
        for position, tensor in enumerate(getattr(program, table)):
            _check_tensor(f"{place}.{table}[{position}]", tensor.dtype, tensor.shape)
    _check_unique(f"{place}.inputs", [t.name for t in program.inputs] + [s.name for s in program.state])
    state_outputs = [name for state in program.state for name in (state.output, *state.also)]
    _check_unique(f"{place}.outputs", [t.name for t in program.outputs] + state_outputs)


def _check_tensor(place: str, dtype: str, shape: Iterable[int | str]) -> None:
    if dtype not in DTYPES:
        raise ManifestError(f"{place}.dtype: {dtype!r} is not one of {', '.join(sorted(DTYPES))}")
    sizes = [dim for dim in shape if isinstance(dim, int)]
    if any(dim < 0 for dim in sizes) or prod(sizes) > MAX_TENSOR_ELEMENTS:
        raise ManifestError(f"{place}.shape: {list(shape)} has a negative or an impossibly large dimension")


def first_repeated(items: Iterable[str]) -> str | None:
    """The first item that equals an earlier one, or None."""
    seen: set[str] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def _check_unique(place: str, names: list[str]) -> None:
    if (twice := first_repeated(names)) is not None:
        raise ManifestError(f"{place}: {twice!r} is used twice")


def _check_name(place: str, name: str) -> None:
    if not _PLAIN_NAME.fullmatch(name):
        raise ManifestError(f"{place}: {name[:80]!a} is not a plain name (letters, digits, . _ + -, at most 64)")


def _check_tokenizer(tokenizer: TokenizerInfo, manifest: Manifest) -> None:
    _check_listed(tokenizer.file, "tokenizer.file", manifest)
    rows = manifest.verifier.vocab_rows
    if not 1 <= tokenizer.token_count <= rows:
        raise ManifestError(f"tokenizer.token_count: {tokenizer.token_count} must be between 1 and vocab_rows {rows}")
    for name, token in (("bos_id", tokenizer.bos_id), ("pad_id", tokenizer.pad_id)):
        if token is not None and not 0 <= token < rows:
            raise ManifestError(f"tokenizer.{name}: {token} is not a row of the vocabulary ({rows} rows)")
    for index, token in enumerate(tokenizer.eos_ids):
        if not 0 <= token < rows:
            raise ManifestError(f"tokenizer.eos_ids[{index}]: {token} is not a row of the vocabulary ({rows} rows)")


def _check_listed(path: str, place: str, manifest: Manifest) -> None:
    check_bundle_path(path, place)
    if path not in manifest.files:
        raise ManifestError(f"{place}: {path!r} is not listed in files")
