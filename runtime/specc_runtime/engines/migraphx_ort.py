"""MIGraphX through onnxruntime-migraphx, which builds programs from their ONNX when they are loaded.

The second way: caches cross to the host and back in every call, because ONNX Runtime's Python interface has no memory
of this provider's. onnxruntime-migraphx falls back to the CPU without a word; here that is an error.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.fixed_widths import FixedWidthPrograms
from specc_runtime.errors import EngineError, first_line
from specc_runtime.manifest import Program, StateSpec

PROVIDER = "MIGraphXExecutionProvider"
INSTALL = "pip install onnxruntime-migraphx on a machine with ROCm"

try:
    import onnxruntime
    from onnxruntime import InferenceSession, SessionOptions
except ImportError as error:
    raise EngineError(f"nor can ONNX Runtime ({error})") from None

if PROVIDER not in onnxruntime.get_available_providers():
    raise EngineError(f"and ONNX Runtime {onnxruntime.__version__} lacks the {PROVIDER}")


def load(bundle: Bundle) -> FixedWidthPrograms:
    """Build and load the programs of `bundle` that are still ONNX.

    Raises EngineError: there are none, or the provider does not run them.
    """
    portable = [program for program in bundle.manifest.programs if program.file.endswith(".onnx")]
    if not portable:
        raise EngineError(
            f"{bundle.root}: its programs are .mxr files: install MIGraphX's Python module, or copy the bundle anew, "
            "as it was compiled"
        )
    return portable_programs(bundle, portable, PROVIDER)


def portable_programs(bundle: Bundle, programs: list[Program], provider: str) -> FixedWidthPrograms:
    """The ONNX of `programs` on one of ONNX Runtime's providers."""
    caches = _Caches()
    return FixedWidthPrograms(
        bundle, programs, lambda program: _Session(bundle, program, provider, caches), caches.zero
    )


class _Caches:
    """The state, by owner and role, as arrays on the host."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, str], NDArray[Any]] = {}

    def __getitem__(self, state: StateSpec) -> NDArray[Any]:
        key = (state.owner, state.role)
        if key not in self._arrays:
            self._arrays[key] = np.zeros(state.shape, state.dtype)
        return self._arrays[key]

    def zero(self) -> None:
        for array in self._arrays.values():
            array.fill(0)


class _Session:
    """One ONNX file on the provider."""

    def __init__(self, bundle: Bundle, program: Program, provider: str, caches: _Caches) -> None:
        self.program = program
        self._file, self._caches = bundle.path(program.file), caches
        self._names = [*(t.name for t in program.outputs), *(s.output for s in program.state)]
        self._session = _create_session(self._file, provider)

    def __call__(self, inputs: Arrays) -> Arrays:
        states = self.program.state
        try:
            made = self._session.run(self._names, {**inputs, **{s.name: self._caches[s] for s in states}})
        except Exception as error:  # the engine's own exceptions share no public base class
            raise EngineError(f"{self._file}: {first_line(error)}; run `specc check` on the bundle") from error
        count = len(self.program.outputs)
        for state, left in zip(states, made[count:], strict=True):
            self._caches[state][...] = left
        return dict(zip(self._names, made[:count], strict=False))


def _create_session(file: Path, provider: str) -> InferenceSession:
    options = SessionOptions()
    options.log_severity_level = 3  # errors reach the caller as exceptions; warnings are not the user's
    if provider != "CPUExecutionProvider":
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        session = InferenceSession(str(file), options, providers=[provider])
    except Exception as error:  # the engine's own exceptions share no public base class
        raise EngineError(
            f"{file}: {provider} does not take it ({first_line(error)}): install MIGraphX's Python module instead, and "
            "build the bundle with its script"
        ) from error
    running = session.get_providers()
    if running[:1] != [provider]:
        raise EngineError(f"{file}: ONNX Runtime runs it on {running[0]}, not on {provider}: {INSTALL}")
    return session
