"""The engines a bundle's programs run on: one module each, imported when a bundle of its backend is loaded.

A module has one public function, `load(bundle, *, threads, fused) -> Programs`.
"""

from importlib import import_module
from typing import cast

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Programs
from specc_runtime.errors import EngineError, OptionError
from specc_runtime.manifest import MAX_THREADS

MODULES = {
    "ort": "specc_runtime.engines.ort",
    "migraphx": "specc_runtime.engines.migraphx",
    "tensorrt": "specc_runtime.engines.tensorrt",
    "xla": "specc_runtime.engines.xla",
}


def load_programs(bundle: Bundle, *, threads: int | None = None, fused: bool = False) -> Programs:
    """The programs of `bundle` on its backend's engine.

    threads: worker threads of a CPU engine; None: what the bundle measured. fused: load `round` and `loop` programs.
    Raises OptionError (threads) or EngineError: no engine for the backend, not installed, too old, a program refused.
    """
    backend = bundle.manifest.backend
    if backend not in MODULES:
        raise EngineError(
            f"backend {backend!r}: this runtime has engines for {', '.join(MODULES)}; upgrade specc-runtime"
        )
    if threads is not None and (type(threads) is not int or not 1 <= threads <= MAX_THREADS):
        raise OptionError(f"threads is {threads!r}: give a whole number from 1 to {MAX_THREADS}")
    return cast(Programs, import_module(MODULES[backend]).load(bundle, threads=threads, fused=fused))
