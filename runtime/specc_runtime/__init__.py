"""Runs a bundle that `specc compile` made: exact speculative decoding with numpy and one engine.

    from specc_runtime import Engine, SamplingParams

    engine = Engine.load("model.specc")
    for token in engine.generate("Once upon a time", SamplingParams(max_new_tokens=64)):
        ...

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specc_runtime.engine import Engine
    from specc_runtime.errors import (
        BundleError,
        ContextError,
        EngineError,
        IntegrityError,
        ManifestError,
        OptionError,
        RequestError,
        SpeccError,
        TokenizerError,
    )
    from specc_runtime.generation import Generation
    from specc_runtime.params import SamplingParams
    from specc_runtime.stats import Stats

_MODULES = {
    "Engine": "engine",
    "Generation": "generation",
    "SamplingParams": "params",
    "Stats": "stats",
    "BundleError": "errors",
    "ContextError": "errors",
    "EngineError": "errors",
    "IntegrityError": "errors",
    "ManifestError": "errors",
    "OptionError": "errors",
    "RequestError": "errors",
    "SpeccError": "errors",
    "TokenizerError": "errors",
}

__all__ = [
    "BundleError",
    "ContextError",
    "Engine",
    "EngineError",
    "Generation",
    "IntegrityError",
    "ManifestError",
    "OptionError",
    "RequestError",
    "SamplingParams",
    "SpeccError",
    "Stats",
    "TokenizerError",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
