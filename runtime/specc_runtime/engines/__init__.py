"""The engines a bundle's programs run on: one module each, imported when a bundle of its backend is loaded.

A module has one public function, `load(bundle, *, threads, fused) -> Programs`.
"""

from importlib import import_module
from typing import cast

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Programs
from specc_runtime.errors import EngineError

MODULES = {
    "ort": "specc_runtime.engines.ort",
}


def load_programs(bundle: Bundle, *, threads: int | None = None, fused: bool = False) -> Programs:
    """The programs of `bundle` on its backend's engine.

    threads: worker threads of a CPU engine; None: what the bundle measured. fused: load `round` programs too.
    Raises EngineError: no engine for the backend, not installed, too old, or it refuses a program.
    """
    backend = bundle.manifest.backend
    if backend not in MODULES:
        raise EngineError(
            f"backend {backend!r}: this runtime has engines for {', '.join(MODULES)}; upgrade specc-runtime"
        )
    if threads is not None and threads < 1:
        raise EngineError(f"threads={threads}: must be 1 or more")
    return cast(Programs, import_module(MODULES[backend]).load(bundle, threads=threads, fused=fused))
