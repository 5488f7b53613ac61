"""ONNX Runtime on the CPU.

One session per program file, its weights memory-mapped from the bundle. Every cache is one OrtValue, bound as input and
output of each program that uses it, so programs write in place. Calls of one shape share an IO binding: after the first
of them nothing is allocated.
"""

import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Feed, Logits, RoundSampling, Tokens
from specc_runtime.engines.stepping import SteppedPrograms
from specc_runtime.errors import EngineError, first_line
from specc_runtime.manifest import RECOMPUTED, VERIFIER, Program, StateSpec, TensorSpec
from specc_runtime.selection import recompute_program, stepping_program, usable_programs

INSTALL = 'pip install "onnxruntime>=1.32"'
MIN_VERSION = (1, 32)

try:
    import onnxruntime
    from onnxruntime import InferenceSession, IOBinding, OrtValue, SessionOptions
except ImportError as error:
    raise EngineError(f"this bundle runs on ONNX Runtime, which can't be imported ({error}): {INSTALL}") from None

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


def load(bundle: Bundle, *, threads: int | None, fused: bool) -> "OrtPrograms":
    """Create the sessions of `bundle`; see `engines.load_programs`."""
    version = _ort_version()
    programs = usable_programs(bundle.manifest, lambda feature: _has_feature(feature, version))
    return OrtPrograms(bundle, programs, threads or bundle.manifest.threads or 1, fused)


class OrtPrograms(SteppedPrograms):
    """`Programs` of an ort bundle."""

    def __init__(self, bundle: Bundle, programs: tuple[Program, ...], threads: int, fused: bool) -> None:
        models = {key for key, drafter in bundle.manifest.drafters.items() if drafter.kind == "model"}
        self.rounds = tuple(p for p in programs if fused and p.kind == "round" and p.drafter in models)
        self._programs, self._caches = programs, _Caches()
        self._session = partial(_Session, bundle, threads=threads, caches=self._caches)
        super().__init__(
            {owner: _StepProgram(self._session(stepping_program(programs, owner))) for owner in (VERIFIER, *models)}
        )
        self._rounds = {p.id: _RoundProgram(self._session(p)) for p in self.rounds}

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

    def bind(self, arrays_in: dict[str, NDArray[Any]], arrays_out: dict[str, NDArray[Any]]) -> IOBinding:
        """A binding to the memory of these arrays and of the caches."""
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
        return binding

    def run(self, binding: IOBinding) -> None:
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:  # the engine's own exceptions share no public base class
            raise EngineError(f"{self._file}: {first_line(error)}; run `specc check` on the bundle") from error


class _StepProgram:
    """tokens, position and the rows wanted in; logits out."""

    def __init__(self, session: _Session) -> None:
        program = session.program
        _expect_tensors(program, ("tokens", "position", "rows"), ("logits",))
        self.max_width = program.max_width
        self.options = frozenset(program.options)
        self._session = session
        self._vocabulary = _static_size(program, program.outputs, "logits", 2)
        self._tokens = np.zeros(self.max_width, np.int64)
        self._position = np.zeros(1, np.int64)
        self._logits = np.zeros(0, np.float32)
        self._bindings: dict[tuple[int, int], tuple[IOBinding, Tokens, Logits]] = {}

    def __call__(self, tokens: Tokens, position: int, rows: int) -> Logits:
        key = (len(tokens), rows)
        bound = self._bindings.get(key)
        if bound is None:
            bound = self._bindings[key] = self._bind(*key)
        binding, fed, logits = bound
        fed[:] = tokens
        self._position[0] = position
        self._session.run(binding)
        return logits

    def _bind(self, width: int, rows: int) -> tuple[IOBinding, Tokens, Logits]:
        """Shapes share the token and logits memory, so many chunk widths cost no more than the largest."""
        if not 0 <= rows <= width <= self.max_width or not width:
            raise EngineError(
                f"program {self._session.program.id!r} is fed {width} rows; it takes 1 to {self.max_width}"
            )
        if self._logits.size < rows * self._vocabulary:
            self._logits = np.zeros(rows * self._vocabulary, np.float32)
            self._bindings.clear()
        fed = self._tokens[:width]
        logits = self._logits[: rows * self._vocabulary].reshape(rows, self._vocabulary)
        inputs = {
            "tokens": fed[None],
            "position": self._position,
            "rows": np.arange(width - rows, width, dtype=np.int64),
        }
        return self._session.bind(inputs, {"logits": logits[None]}), fed, logits


class _Recompute:
    """The verifier's step on fp32 keys and values, each row of which is then rounded into the cache it is kept in."""

    def __init__(self, session: _Session, caches: _Caches) -> None:
        self._step = _StepProgram(session)
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


class _RoundProgram:
    """The last committed tokens, uniforms and warping in; emitted ids and their count out."""

    def __init__(self, session: _Session) -> None:
        _expect_tensors(
            session.program,
            ("tokens", "position", "uniforms", "temperature", "top_k", "top_p", "min_p"),
            ("ids", "count"),
        )
        gamma = (session.program.width or 1) - 1
        self._session = session
        width = _static_size(session.program, session.program.inputs, "tokens", 1)
        self._tokens, self._position = np.zeros((1, width), np.int64), np.zeros(1, np.int64)
        self._uniforms = np.zeros((1, 2 * gamma + 1), np.float32)
        self._temperature, self._top_k = np.zeros(1, np.float32), np.zeros(1, np.int64)
        self._top_p, self._min_p = np.zeros(1, np.float32), np.zeros(1, np.float32)
        self._ids, self._count = np.zeros((1, gamma + 1), np.int64), np.zeros(1, np.int64)
        inputs: dict[str, NDArray[Any]] = {
            "tokens": self._tokens,
            "position": self._position,
            "uniforms": self._uniforms,
            "temperature": self._temperature,
            "top_k": self._top_k,
            "top_p": self._top_p,
            "min_p": self._min_p,
        }
        self._binding = session.bind(inputs, {"ids": self._ids, "count": self._count})

    def __call__(self, tokens: Tokens, position: int, uniforms: NDArray[np.float32], sampling: RoundSampling) -> Tokens:
        self._tokens[0] = tokens
        self._position[0] = position
        self._uniforms[0] = uniforms
        self._temperature[0], self._top_k[0] = sampling.temperature, sampling.top_k
        self._top_p[0], self._min_p[0] = sampling.top_p, sampling.min_p
        self._session.run(self._binding)
        return self._ids[0, : int(self._count[0])]


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


def _expect_tensors(program: Program, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    for table, known in ((program.inputs, inputs), (program.outputs, outputs)):
        found = tuple(tensor.name for tensor in table)
        if sorted(found) != sorted(known):
            raise EngineError(
                f"program {program.id!r}: the ort engine binds {known}, the manifest lists {found}; re-compile"
            )


def _static_size(program: Program, tensors: Sequence[TensorSpec], name: str, axis: int) -> int:
    shape = next(tensor.shape for tensor in tensors if tensor.name == name)
    size = shape[axis] if len(shape) > axis else None
    if not isinstance(size, int):
        raise EngineError(f"program {program.id!r}: axis {axis} of {name} {list(shape)} must be a number; re-compile")
    return size


def _ort_version() -> tuple[int, ...]:
    version = _version_numbers(onnxruntime.__version__)
    if version < MIN_VERSION:
        raise EngineError(f"ONNX Runtime {onnxruntime.__version__} is too old for this bundle: {INSTALL}")
    return version


def _has_feature(feature: str, version: tuple[int, ...]) -> bool:
    wanted = re.fullmatch(r"ort>=([0-9.]+)", feature)
    return wanted is not None and version >= _version_numbers(wanted[1])


def _version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])
