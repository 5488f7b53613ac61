"""Backends: what turns core graphs into programs for one engine. An explicit table, each imported when asked for."""

import importlib
from typing import TYPE_CHECKING, NamedTuple

from specc.errors import OptionError, TargetError, unknown

if TYPE_CHECKING:
    from specc.backends.record import Backend
    from specc.targets import Target


class _Entry(NamedTuple):
    """module: has the record as `BACKEND`. machines: kinds of targets it makes programs for.

    shared: whether a bundle of its can be for several machines. meshes: whether its programs can run on several chips.
    """

    module: str
    machines: frozenset[str]
    shared: bool = False
    meshes: bool = False


_BACKENDS = {
    "migraphx": _Entry("specc.backends.migraphx", frozenset({"gpu"})),
    "ort": _Entry("specc.backends.ort", frozenset({"cpu", "gpu"})),
    "tensorrt": _Entry("specc.backends.tensorrt", frozenset({"gpu"}), shared=True),
    "xla": _Entry("specc.backends.xla", frozenset({"cpu", "gpu", "tpu"}), meshes=True),
}


def known_backends() -> tuple[str, ...]:
    """Names of the backends there are."""
    return tuple(sorted(_BACKENDS))


def load_backend(name: str) -> "Backend":
    """The backend `name`. Raises TargetError when specc has none of that name."""
    if name not in _BACKENDS:
        raise TargetError(unknown("backend", name, known_backends()))
    backend: Backend = importlib.import_module(_BACKENDS[name].module).BACKEND
    return backend


def usable_backends(target: "Target") -> tuple[str, ...]:
    """The target's backends that this version can compile with, its default first."""
    names = sorted(target.backends, key=lambda name: name != target.default_backend)
    return tuple(name for name in names if name in _BACKENDS and _takes(_BACKENDS[name], target))


def _takes(entry: _Entry, target: "Target") -> bool:
    fits = (entry.shared or not target.is_several) and (entry.meshes or target.devices == 1)
    return target.kind in entry.machines and fits


def choose_backend(target: "Target", asked: str | None) -> "Backend":
    """The backend a compile to `target` takes: the one asked for, else the target's default.

    On several chips at once, the first that runs there.

    Raises OptionError for one the target does not list, TargetError for one that this version can't compile with.
    """
    if asked is not None and asked not in target.backends:
        raise OptionError(unknown(f"backend for target {target.name}", asked, target.backends))
    usable = usable_backends(target)
    name = asked or (usable[0] if usable and target.devices > 1 else target.default_backend)
    if name in usable:
        return load_backend(name)
    others = " or ".join(f"--backend {other}" for other in usable)
    alone = (
        "compile a bundle for each" if target.is_several else "`specc targets` says which targets can be compiled for"
    )
    way_out = f"try {others}" if others else alone
    kind = "several chips" if target.devices > 1 else f"a {target.kind}"
    machine = "several machines at once" if target.is_several else kind
    lacking = f"does not take to {machine}" if name in _BACKENDS else "does not have"
    raise TargetError(
        f"target {target.name!r} needs backend {name!r}, which this version of specc {lacking}; {way_out}"
    )
