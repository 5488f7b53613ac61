"""Backends: what turns core graphs into programs for one engine. An explicit table, each imported when asked for."""

import importlib
from typing import TYPE_CHECKING

from specc.errors import TargetError

if TYPE_CHECKING:
    from specc.backends.record import Backend

_MODULES = {"ort": "specc.backends.ort"}


def known_backends() -> tuple[str, ...]:
    """Names of the backends there are."""
    return tuple(sorted(_MODULES))


def load_backend(name: str, target: str) -> "Backend":
    """The backend `name`, for a compile to `target`. Raises TargetError when specc has none of that name yet."""
    if name not in _MODULES:
        raise TargetError(
            f"target {target!r} needs backend {name!r}, which this version of specc does not have; "
            f"known: {', '.join(known_backends())}; `specc targets` says which targets can be compiled for"
        )
    backend: Backend = importlib.import_module(_MODULES[name]).BACKEND
    return backend
