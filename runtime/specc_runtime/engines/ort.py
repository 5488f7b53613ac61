"""ONNX Runtime on the CPU.

One session per program file, its weights memory-mapped from the bundle. Every cache is one OrtValue, bound as input and
output of each program that uses it, so programs write in place. Calls of one shape share an IO binding: after the first
of them nothing is allocated.
"""

from collections.abc import Callable
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Feed, Logits, Programs, RoundSampling, Tokens
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.ort_calls import RoundProgram, StepProgram
from specc_runtime.engines.ort_requirements import needs_cuda
from specc_runtime.engines.stepping import SteppedPrograms
from specc_runtime.errors import EngineError, first_line
from specc_runtime.manifest import RECOMPUTED, VERIFIER, Program, StateSpec
from specc_runtime.requirements import is_met, version_numbers
from specc_runtime.selection import recompute_program, stepping_program, usable_programs

INSTALL = 'pip install "onnxruntime>=1.32"'
MIN_VERSION = (1, 32)

try:
    import onnxruntime
    from onnxruntime import InferenceSession, IOBinding, OrtValue, SessionOptions
except ImportError as error:
    raise EngineError(
        f"this bundle runs on ONNX Runtime, which can't be imported ({error}): {INSTALL}, or onnxruntime-gpu for a "
        "bundle for an NVIDIA GPU"
    ) from None

# What a state's dtype is stored as in numpy, and its number in onnx.TensorProto.
_STATE_DTYPES: dict[str, tuple[type[np.generic], int]] = {
    "float32": (np.float32, 1),
    "uint8": (np.uint8, 2),
    "int8": (np.int8, 3),
    "int32": (np.int32, 6),
    "int64": (np.int64, 7),
    "bool": (np.bool_, 9),
    "float16": (np.float16, 10),
    "bfloat16": (np.uint16, 16),
}


def load(bundle: Bundle, *, threads: int | None, fused: bool) -> Programs:
    """Create the sessions of `bundle`, on the CPU or on a GPU, as it was compiled; see `engines.load_programs`."""
    if needs_cuda(bundle.manifest.programs):
        on_cuda: Programs = import_module("specc_runtime.engines.ort_cuda").load(bundle)
        return on_cuda
    if version_numbers(onnxruntime.__version__) < MIN_VERSION:
        raise EngineError(f"ONNX Runtime {onnxruntime.__version__} is too old for this bundle: {INSTALL}")
    programs = usable_programs(bundle.manifest, partial(is_met, here={"ort": onnxruntime.__version__}))
    return OrtPrograms(bundle, programs, threads or bundle.manifest.threads or 1, fused)


class OrtPrograms(SteppedPrograms):
    """`Programs` of an ort bundle."""

    def __init__(self, bundle: Bundle, programs: tuple[Program, ...], threads: int, fused: bool) -> None:
        models = bundle.manifest.model_drafters
        self.rounds = tuple(p for p in programs if fused and p.kind == "round" and p.drafter in models)
        self._programs, self._caches = programs, _Caches()
        self._session = partial(_Session, bundle, threads=threads, caches=self._caches)
        super().__init__(
            {owner: StepProgram(self._session(stepping_program(programs, owner))) for owner in (VERIFIER, *models)}
        )
        self._rounds = {p.id: RoundProgram(self._session(p)) for p in self.rounds}

    def round(
        self,
        program: Program,
        tokens: Tokens,
        position: int,
        uniforms: NDArray[np.float32],
        sampling: RoundSampling,
    ) -> Tokens:
        return self._rounds[program.id](tokens, position, uniforms, sampling)

    def full_precision(self) -> Feed | None:
        return self._recompute

    @cached_property
    def _recompute(self) -> "_Recompute | None":
        """Loaded late: its session prepacks the verifier's weights a second time, and few requests need it."""
        program = recompute_program(self._programs)
        return None if program is None else _Recompute(self._session(program), self._caches)

    def reset(self) -> None:
        self._caches.zero()


class _Caches:
    """The state buffers, by owner and role, each one piece of memory for the life of the programs."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, str], tuple[NDArray[Any], OrtValue]] = {}

    def __getitem__(self, state: StateSpec) -> OrtValue:
        key = (state.owner, state.role)
        if key not in self._buffers:
            if state.dtype not in _STATE_DTYPES:
                raise EngineError(
                    f"state {state.name!r}: the ort engine has no caches of dtype {state.dtype}; re-compile the bundle"
                )
            stored, onnx_type = _STATE_DTYPES[state.dtype]
            zeros = np.zeros(state.shape, stored)
            self._buffers[key] = zeros, OrtValue.ortvalue_from_numpy_with_onnx_type(zeros, onnx_type)
        return self._buffers[key][1]

    def array(self, owner: str, role: str) -> NDArray[Any]:
        """The memory of a buffer that some program uses already."""
        return self._buffers[owner, role][0]

    def zero(self) -> None:
        for array, _ in self._buffers.values():
            array.fill(0)


class _Session:
    """One program file in ONNX Runtime, and how its inputs and outputs are bound."""

    def __init__(self, bundle: Bundle, program: Program, threads: int, caches: _Caches) -> None:
        self.program = program
        self._file = bundle.path(program.file)
        self._caches = [(state.name, (state.output, *state.also), caches[state]) for state in program.state]
        self._session = _create_session(self._file, bundle.root, threads)

    def bound(self, arrays_in: Arrays, arrays_out: Arrays) -> Callable[[], None]:
        """A call on the memory of these arrays and of the caches."""
        binding = self._session.io_binding()
        try:
            for name, array in arrays_in.items():
                binding.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(array))
            for name, array in arrays_out.items():
                binding.bind_ortvalue_output(name, OrtValue.ortvalue_from_numpy(array))
            for name, outputs, cache in self._caches:
                binding.bind_ortvalue_input(name, cache)
                for output in outputs:
                    binding.bind_ortvalue_output(output, cache)
        except Exception as error:  # the engine's own exceptions share no public base class
            raise EngineError(f"{self._file}: {first_line(error)}; re-copy or re-compile the bundle") from error
        return partial(self._run, binding)

    def _run(self, binding: IOBinding) -> None:
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:  # the engine's own exceptions share no public base class
            raise EngineError(f"{self._file}: {first_line(error)}; run `specc check` on the bundle") from error


class _Recompute:
    """The verifier's step on fp32 keys and values, each row of which is then rounded into the cache it is kept in."""

    def __init__(self, session: _Session, caches: _Caches) -> None:
        self._step = StepProgram(session)
        self._pairs = [
            (caches.array(state.owner, state.role), caches.array(state.owner, state.role.removeprefix(RECOMPUTED)))
            for state in session.program.state
            if state.role.startswith(RECOMPUTED)
        ]
        for exact, rounded in self._pairs:
            if exact.dtype != np.float32 or rounded.dtype != np.float16:
                raise EngineError(
                    f"program {session.program.id!r}: the ort engine rounds float32 to float16, "
                    f"not {exact.dtype} to {rounded.dtype}; re-compile"
                )

    def __call__(self, tokens: Tokens, position: int, rows: int) -> Logits:
        logits = self._step(tokens, position, rows)
        written = slice(position, position + len(tokens))
        with np.errstate(over="ignore"):  # infinite, as the other programs' own casts make it
            for exact, rounded in self._pairs:
                rounded[:, :, written] = exact[:, :, written]
        return logits


def _create_session(file: Path, root: Path, threads: int) -> InferenceSession:
    """A session on `file` whose external weights are mapped from files below `root`."""
    options = SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors reach the caller as exceptions; warnings are not the user's
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(root))
    options.add_session_config_entry("session.force_spinning_stop", "1")  # workers must not burn cores between calls
    try:
        return InferenceSession(file.read_bytes(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the engine's own exceptions share no public base class
        raise EngineError(f"{file}: {first_line(error)}; re-copy or re-compile the bundle") from error
