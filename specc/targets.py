"""Targets: the machines programs are compiled for, one flat TOML file each under targets/.

A file states what the vendor states, each figure with the address it was taken from; a figure nobody states is left
out. Adding a target means adding a file.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from specc.errors import TargetError, unknown
from specc.resources import data_folder

KINDS = ("cpu", "gpu", "tpu")
DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4")

_RATE = "tops_"
_TEXTS = ("name", "title", "vendor", "kind", "architecture", "default_backend")
_LISTS = ("dtypes", "backends", "environment", "slices", "tactic_sources")
_TABLES = ("xla", "sources")
_FIGURES = ("memory_gib", "bandwidth_gb_s", "wavefront", *(_RATE + dtype for dtype in DTYPES))
_FLAGS = ("exhaustive_tune", "in_place_caches", "timing_cache")
_KEYS = (*_TEXTS, *_LISTS, *_FIGURES, *_TABLES, *_FLAGS, "aux_streams", "notes", "devices_per_chip")
_MESH = re.compile(r"[1-9][0-9]*(x[1-9][0-9]*){0,2}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=[A-Za-z0-9_,.~!-]+")


@dataclass(frozen=True)
class Target:
    """One machine.

    architecture: what its compilers call it ("sm80", "gfx942", "v5e"); of several machines, joined by commas.
    dtypes: those its matrix units compute in.
    memory_gib, bandwidth_gb_s: device memory and its peak bandwidth (GB: 10^9 bytes); None where not stated.
    wavefront: threads that run in step; None where not stated. environment: variables that its compiler is run with,
    `NAME=VALUE`. exhaustive_tune: whether its compiler tries every form of a kernel: slow to build, faster to run.
    tactic_sources, aux_streams, timing_cache: what TensorRT's builder is told on the device: where kernels come from
    (none named: its default), streams beside a round's one, whether timings are kept for the next build.
    in_place_caches: whether MIGraphX programs of few rows, and the steps in TensorRT's rounds, write caches without
    copying them first; unproven on a device.
    tops: dense peak rate of matrix products by dtype, 10^12 operations per second, no sparsity counted.
    slices: arrangements of a host's chips ("2x4"), the smallest first. mesh: the one that programs run on all chips of;
    "": they run on one device. devices_per_chip: that programs see of one chip. xla: what XLA's compiler is told of the
    machine.
    sources: the address each figure was taken from, by its key in the file.
    """

    name: str
    title: str
    vendor: str
    kind: str
    architecture: str
    dtypes: tuple[str, ...]
    backends: tuple[str, ...]
    default_backend: str
    memory_gib: float | None = None
    bandwidth_gb_s: float | None = None
    wavefront: int | None = None
    environment: tuple[str, ...] = ()
    exhaustive_tune: bool = False
    in_place_caches: bool = False
    tactic_sources: tuple[str, ...] = ()
    aux_streams: int = 0
    timing_cache: bool = True
    tops: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""
    slices: tuple[str, ...] = ()
    mesh: str = ""
    devices_per_chip: int = 1
    xla: Mapping[str, Any] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """How many devices one program runs on."""
        return math.prod(map(int, self.mesh.split("x"))) * self.devices_per_chip if self.mesh else 1

    @property
    def is_several(self) -> bool:
        """Whether it stands for several machines that one bundle is to serve."""
        return "," in self.name


def known_targets() -> tuple[str, ...]:
    """Names of the shipped targets, sorted."""
    return tuple(sorted(_shipped_files()))


def load_target(name: str) -> Target:
    """The target called `name`, or described by the TOML file at path `name` (ends in .toml).

    Several names, joined by commas, are one target for the backends that serve several machines with one bundle. After
    a colon, one of the target's slices: programs run on all its chips together ("tpu-v5e:2x4", "h100:8").
    Raises TargetError: no such target, file or slice, a file that is not TOML, or one that breaks a rule of
    `parse_target`; targets that share no backend.
    """
    if "," in name:
        return _together([load_target(part.strip()) for part in name.split(",")])
    if ":" in name:
        return _on_slice(*name.rsplit(":", 1))
    if name.endswith(".toml"):
        path = Path(name)
        try:
            return parse_target(path.read_text(encoding="utf-8"), path.stem, str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise TargetError(f"target file {name} can't be read: {error}") from error
    file = _shipped_files().get(name)
    if file is None:
        raise TargetError(unknown("target", name, known_targets()) + "; or give the path of a .toml file")
    return parse_target(file.read_text(encoding="utf-8"), name, f"targets/{name}.toml")


def _on_slice(name: str, mesh: str) -> Target:
    """The target `name`, its programs on all chips of the slice `mesh`."""
    target = load_target(name)
    if mesh not in target.slices:
        known = f"known: {', '.join(target.slices)}" if target.slices else "it has none of several chips"
        raise TargetError(f"target {name!r} has no slice {mesh!r}; {known}")
    return replace(target, name=f"{target.name}:{mesh}", mesh=mesh)


def parse_target(text: str, name: str, where: str) -> Target:
    """The target that TOML `text` describes; `name` is what the file is called, `where` names it in errors.

    Raises TargetError: a key that is not known, missing or of the wrong type, a figure without a source, a source
    without a figure, or values that contradict each other.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TargetError(f"target file {where} is not TOML: {error}") from error
    try:
        return _target(table, name)
    except TargetError as error:
        raise TargetError(f"target file {where}: {error}") from error


def _together(targets: Sequence[Target]) -> Target:
    """Several machines as one: what all of them compute in, the least memory of any, and nothing about speed."""
    name = ",".join(target.name for target in targets)
    if len({target.name for target in targets}) < len(targets):
        raise TargetError(f"targets {name}: one is named twice; name each once")
    backends = tuple(b for b in targets[0].backends if all(b in target.backends for target in targets))
    if not backends:
        raise TargetError(f"targets {name}: no backend builds for all of them; compile a bundle for each")
    memory = [target.memory_gib for target in targets if target.memory_gib is not None]
    return Target(
        name=name,
        title=", ".join(target.title for target in targets),
        vendor=targets[0].vendor,
        kind=targets[0].kind,
        architecture=",".join(dict.fromkeys(target.architecture for target in targets)),
        dtypes=tuple(dtype for dtype in targets[0].dtypes if all(dtype in target.dtypes for target in targets)),
        backends=backends,
        default_backend=targets[0].default_backend if targets[0].default_backend in backends else backends[0],
        memory_gib=min(memory, default=None),
    )


@cache
def _shipped_files() -> Mapping[str, Traversable]:
    entries = data_folder("targets").iterdir()
    return {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}


def _target(table: Mapping[str, Any], name: str) -> Target:
    for key in table:
        if key not in _KEYS:
            raise TargetError(unknown("key", key, _KEYS))
    texts = {key: _text(table, key) for key in _TEXTS}
    figures = {key: _figure(table, key) for key in _FIGURES if key in table}
    target = Target(
        **texts,
        dtypes=_names(table, "dtypes"),
        backends=_names(table, "backends"),
        memory_gib=figures.get("memory_gib"),
        bandwidth_gb_s=figures.get("bandwidth_gb_s"),
        wavefront=int(figures["wavefront"]) if "wavefront" in figures else None,
        environment=_names(table, "environment") if "environment" in table else (),
        exhaustive_tune=_flag(table, "exhaustive_tune"),
        in_place_caches=_flag(table, "in_place_caches"),
        tactic_sources=_names(table, "tactic_sources") if "tactic_sources" in table else (),
        aux_streams=_count(table.get("aux_streams", 0), "aux_streams", 0),
        timing_cache=_flag(table, "timing_cache", default=True),
        tops=MappingProxyType({dtype: figures[_RATE + dtype] for dtype in DTYPES if _RATE + dtype in figures}),
        sources=MappingProxyType(_sources(table, figures)),
        notes=_text(table, "notes") if "notes" in table else "",
        slices=_names(table, "slices") if "slices" in table else (),
        devices_per_chip=_count(table.get("devices_per_chip", 1), "devices_per_chip"),
        xla=MappingProxyType(_table(table, "xla")),
    )
    _check_agreement(target, name)
    return target


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise TargetError(f"{key!r} must be a text, found {value!r}")
    return value


def _names(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise TargetError(f"{key!r} must be a list of names, found {value!r}")
    return tuple(value)


def _flag(table: Mapping[str, Any], key: str, *, default: bool = False) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise TargetError(f"{key!r} must be true or false, found {value!r}")
    return value


def _figure(table: Mapping[str, Any], key: str) -> float:
    value = table[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise TargetError(f"{key!r} must be a number above 0, found {value!r}")
    return float(value)


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise TargetError(f"{key!r} must be a table of key = value, found {value!r}")
    return value


def _count(value: Any, key: str, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise TargetError(f"{key!r} must be a whole number above {least - 1}, found {value!r}")
    return value


def _sources(table: Mapping[str, Any], figures: Mapping[str, float]) -> dict[str, str]:
    sources = _table(table, "sources")
    for key in figures:
        if key not in sources:
            raise TargetError(f"figure {key!r} has no source; add it under [sources]")
    for key in sources:
        if key not in figures:
            raise TargetError(f"source of {key!r}, but the file states no such figure")
        if not _text(sources, key).startswith("https://"):
            raise TargetError(f"source of {key!r} must be an https:// address, found {sources[key]!r}")
    return dict(sources)


def _check_agreement(target: Target, name: str) -> None:
    """What single keys can't show: that they fit each other and the file's name."""
    if target.name != name:
        raise TargetError(f"'name' is {target.name!r}, but the file is called {name!r}")
    if target.kind not in KINDS:
        raise TargetError(unknown("kind", target.kind, KINDS))
    for dtype in target.dtypes:
        if dtype not in DTYPES:
            raise TargetError(unknown("dtype", dtype, DTYPES))
    for dtype in target.tops:
        if dtype not in target.dtypes:
            raise TargetError(f"states {_RATE}{dtype}, but 'dtypes' lacks {dtype!r}")
    for mesh in target.slices:
        if not _MESH.fullmatch(mesh):
            raise TargetError(f"'slices' holds {mesh!r}, which is no product of chips along axes, e.g. 2x4")
    for variable in target.environment:
        if not _VARIABLE.fullmatch(variable):
            raise TargetError(f"'environment' holds {variable!r}, which is not NAME=VALUE of plain characters")
    if target.default_backend not in target.backends:
        raise TargetError(f"'default_backend' {target.default_backend!r} is not among 'backends' {target.backends}")
