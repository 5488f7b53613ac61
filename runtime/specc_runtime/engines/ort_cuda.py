"""ONNX Runtime on an NVIDIA GPU, through onnxruntime-gpu.

Every cache is one OrtValue in device memory, bound as input and output of each program that uses it. Tokens go in and
logits come out through the host. ONNX Runtime falls back to the CPU without a word, for a whole session if a driver or
library is missing and for single ops that have no CUDA kernel: here both are errors.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime import InferenceSession, OrtValue, SessionOptions

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import RoundSampling, Tokens
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.ort_calls import StepProgram
from specc_runtime.engines.ort_requirements import CUDA_PACKAGE, CUDA_VERSION
from specc_runtime.engines.stepping import SteppedPrograms
from specc_runtime.errors import EngineError, first_line
from specc_runtime.manifest import VERIFIER, Program, StateSpec
from specc_runtime.requirements import is_met, version_numbers
from specc_runtime.selection import stepping_program, usable_programs

PROVIDER, DEVICE = "CUDAExecutionProvider", "cuda"
INSTALL = f'pip install "{CUDA_PACKAGE}" on a machine with an NVIDIA driver'
PRODUCTS = frozenset({"FusedMatMul", "GroupQueryAttention", "MatMul", "MatMulNBits"})  # what must run on the GPU


def load(bundle: Bundle) -> "CudaPrograms":
    """Create the sessions of `bundle`. Raises EngineError: no CUDA provider here, or one that does not run them."""
    found = version_numbers(onnxruntime.__version__)
    if PROVIDER not in onnxruntime.get_available_providers() or found < CUDA_VERSION:
        raise EngineError(
            f"this bundle is for {bundle.manifest.target}, and ONNX Runtime {onnxruntime.__version__} here lacks the "
            f"{PROVIDER} or is too old: {INSTALL}"
        )
    return CudaPrograms(bundle, PROVIDER, DEVICE)


class CudaPrograms(SteppedPrograms):
    """`Programs` of an ort bundle for a GPU. It has no rounds and no fp32 caches."""

    rounds: tuple[Program, ...] = ()

    def __init__(self, bundle: Bundle, provider: str, device: str) -> None:
        programs = usable_programs(bundle.manifest, partial(is_met, here={"ort-cuda": onnxruntime.__version__}))
        self._caches = _Caches(device)
        session = partial(_Session, bundle, provider=provider, caches=self._caches)
        owners = (VERIFIER, *bundle.manifest.model_drafters)
        super().__init__({owner: StepProgram(session(stepping_program(programs, owner))) for owner in owners})

    def round(
        self,
        program: Program,
        tokens: Tokens,
        position: int,
        uniforms: NDArray[np.float32],
        sampling: RoundSampling,
    ) -> Tokens:
        raise EngineError(f"program {program.id!r}: ort bundles for a GPU have no rounds; decode without --fused")

    def reset(self) -> None:
        self._caches.zero()


class _Caches:
    """The state buffers, by owner and role, each one piece of device memory for the life of the programs."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._buffers: dict[tuple[str, str], OrtValue] = {}
        self._dtypes: dict[tuple[str, str], str] = {}

    def __getitem__(self, state: StateSpec) -> OrtValue:
        key = (state.owner, state.role)
        if key not in self._buffers:
            if state.dtype not in ("float16", "float32"):
                raise EngineError(
                    f"state {state.name!r}: the ort engine has no caches of dtype {state.dtype} on a GPU; re-compile"
                )
            zeros = np.zeros(state.shape, state.dtype)
            self._dtypes[key] = state.dtype
            try:
                self._buffers[key] = OrtValue.ortvalue_from_numpy(zeros, self._device, 0)
            except Exception as error:  # the engine's own exceptions share no public base class
                raise EngineError(
                    f"state {state.name!r}: no memory for {zeros.nbytes:,} bytes on the GPU ({first_line(error)}); "
                    "compile with a smaller --context"
                ) from error
        return self._buffers[key]

    def zero(self) -> None:
        for key, buffer in self._buffers.items():
            buffer.update_inplace(np.zeros(buffer.shape(), self._dtypes[key]))


class _Session:
    """One program file on the provider, and how its inputs and outputs are bound."""

    def __init__(self, bundle: Bundle, program: Program, provider: str, caches: _Caches) -> None:
        self.program = program
        self._file = bundle.path(program.file)
        self._session = _create_session(self._file, bundle.root, provider)  # first: it tells whether there is a GPU
        self._caches = [(state, caches[state]) for state in program.state]

    def bound(self, arrays_in: Arrays, arrays_out: Arrays) -> Callable[[], None]:
        """A call that copies `arrays_in` to the device each time, wherever there the graph wants them."""
        binding = self._session.io_binding()
        try:
            for name, array in arrays_out.items():
                binding.bind_ortvalue_output(name, OrtValue.ortvalue_from_numpy(array))
            for state, cache in self._caches:
                binding.bind_ortvalue_input(state.name, cache)
                binding.bind_ortvalue_output(state.output, cache)
        except Exception as error:  # the engine's own exceptions share no public base class
            raise EngineError(f"{self._file}: {first_line(error)}; re-copy or re-compile the bundle") from error
        return partial(self._run, binding, dict(arrays_in))

    def _run(self, binding: Any, arrays_in: Mapping[str, NDArray[Any]]) -> None:
        try:
            for name, array in arrays_in.items():
                binding.bind_cpu_input(name, array)
            self._session.run_with_iobinding(binding)
        except Exception as error:  # the engine's own exceptions share no public base class
            raise EngineError(f"{self._file}: {first_line(error)}; run `specc check` on the bundle") from error


def _create_session(file: Path, root: Path, provider: str) -> InferenceSession:
    """A session on `file`, all of whose products run on `provider`."""
    options = SessionOptions()
    options.log_severity_level = 3  # errors reach the caller as exceptions; warnings are not the user's
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(root))
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = InferenceSession(file.read_bytes(), options, providers=[provider])
    except Exception as error:  # the engine's own exceptions share no public base class
        raise EngineError(f"{file}: not to be run on {provider} here ({first_line(error)}): {INSTALL}") from error
    running = session.get_providers()
    if running[:1] != [provider]:
        raise EngineError(f"{file}: ONNX Runtime runs it on {running[0]}, not on {provider}: {INSTALL}")
    if elsewhere := _products_elsewhere(session, provider):
        raise EngineError(
            f"{file}: ONNX Runtime runs its {', '.join(sorted(elsewhere))} on the CPU, not on {provider}, which has no "
            "kernel for them on this GPU: compile with another --precision, or with --target cpu"
        )
    return session


def _products_elsewhere(session: InferenceSession, provider: str) -> Collection[str]:
    """Products that another provider was given."""
    return {
        node.op_type
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name != provider
        for node in part.get_nodes()
        if node.op_type in PRODUCTS
    }
