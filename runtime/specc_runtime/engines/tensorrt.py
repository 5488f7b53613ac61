"""TensorRT on one CUDA device: the programs of an engine share its weights, all programs the caches.

Each cache is one piece of device memory, bound as input and output of every program that uses it, so programs write in
place. A program's second call captures its copies and its engine call as one CUDA graph, which later calls launch. The
host waits for a call's outputs only: of a round, the emitted ids and their count.
"""

from collections.abc import Callable
from importlib import import_module
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.cuda_device import CudaDevice, load_cuda
from specc_runtime.engines.fixed_widths import FixedWidthPrograms
from specc_runtime.engines.tensorrt_requirements import BUILD_SCRIPT, FULL, RTX, Requirements, requirements
from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program, StateSpec, TensorSpec

_MODULES = {RTX: "tensorrt_rtx", FULL: "tensorrt"}
_WIDTH_INPUT = "tokens"  # its shape tells the profiles of an engine apart
_STATE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def load(bundle: Bundle, *, threads: int | None, fused: bool) -> FixedWidthPrograms:
    """Load the engines of `bundle`; see `engines.load_programs`. Rounds always are: launches are what costs on a GPU.

    threads, fused: mean nothing here. Raises EngineError, before an engine is read: engines not built yet, a package
    missing or of another version, no driver, or a GPU the engines are not for.
    """
    programs = bundle.manifest.programs
    needed = requirements(programs)
    files = {program.file: _engine_file(bundle, program) for program in programs}
    trt = _load_tensorrt(needed)
    device = CudaDevice(load_cuda())
    needed.check_architecture(device.architecture, bundle.manifest.target)
    engines, caches = _Engines(trt), _Caches(device)

    def call(program: Program) -> _Call:
        return _Call(program, engines[files[program.file]], device, caches)

    return FixedWidthPrograms(bundle, programs, call, caches.zero)


def _engine_file(bundle: Bundle, program: Program) -> Path:
    """Where a program's engine lies: a built one in the bundle, a portable one where the build script left it."""
    path = bundle.path(program.file)
    if program.built:
        return path
    engine = path.with_suffix(".engine")
    if not engine.is_file():
        raise EngineError(
            f"{engine}: not built yet; this bundle's engines are built on the device: run `python "
            f"{bundle.root / BUILD_SCRIPT}` there"
        )
    return engine


def _load_tensorrt(needed: Requirements) -> ModuleType:
    try:
        module = import_module(_MODULES[needed.package])
    except ImportError as error:
        raise EngineError(
            f'this bundle runs on TensorRT, which can\'t be imported ({error}): pip install "{needed.wanted}"'
        ) from None
    needed.check_version(module.__version__)
    return module


class _Engines:
    """Engines by file, each read once."""

    def __init__(self, trt: ModuleType) -> None:
        self._trt = trt
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self._loaded: dict[Path, Any] = {}

    def __getitem__(self, path: Path) -> Any:
        if path not in self._loaded:
            engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
            if engine is None:
                raise EngineError(
                    f"{path}: TensorRT {self._trt.__version__} does not load it; re-copy or compile it again"
                )
            self._loaded[path] = engine
        return self._loaded[path]


class _Caches:
    """The state, by owner and role, each one piece of device memory for the life of the programs."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._memory: dict[tuple[str, str], tuple[int, int]] = {}

    def __getitem__(self, state: StateSpec) -> int:
        key = (state.owner, state.role)
        if key not in self._memory:
            if state.dtype not in _STATE_BYTES:
                raise EngineError(
                    f"state {state.name!r}: the tensorrt engine has no caches of dtype {state.dtype}; re-compile"
                )
            size = prod(state.shape) * _STATE_BYTES[state.dtype]
            self._memory[key] = self._device.zeros(size), size
        return self._memory[key][0]

    def zero(self) -> None:
        for address, size in self._memory.values():
            self._device.zero(address, size)


class _Call:
    """One program: a context of its engine on the profile of its width, its tensors bound for good."""

    def __init__(self, program: Program, engine: Any, device: CudaDevice, caches: _Caches) -> None:
        self.program = program
        self._device = device
        self._context = engine.create_execution_context()
        if self._context is None:
            raise EngineError(
                f"program {program.id!r}: no memory on the GPU for its engine; close what else uses the GPU"
            )
        self._choose_profile(engine)
        self._inputs = {spec.name: self._bound(spec) for spec in program.inputs}
        self._outputs = {spec.name: self._bound(spec) for spec in program.outputs}
        for state in program.state:
            self._bind_cache(state, caches[state], engine)
        self._launch: Callable[[], None] | None = None
        self._calls = 0

    def __call__(self, inputs: Arrays) -> Arrays:
        for name, array in inputs.items():
            self._inputs[name][0][...] = array
        if self._calls == 1:  # not the first: kernels are made then
            self._launch = self._device.captured(self._queue)
        self._calls += 1
        (self._launch or self._queue)()
        self._device.synchronize()
        return {name: array for name, (array, _) in self._outputs.items()}

    def _queue(self) -> None:
        for array, address in self._inputs.values():
            self._device.upload(address, array)
        if not self._context.execute_async_v3(self._device.stream):
            raise EngineError(
                f"program {self.program.id!r}: TensorRT did not run it, its message stands above; "
                "run `specc check` on the bundle"
            )
        for array, address in self._outputs.values():
            self._device.download(array, address)

    def _choose_profile(self, engine: Any) -> None:
        """The profile whose shapes are the program's; a static engine has one, which is chosen already."""
        if engine.num_optimization_profiles <= 1:
            return
        width = next((spec.shape for spec in self.program.inputs if spec.name == _WIDTH_INPUT), None)
        for index in range(engine.num_optimization_profiles):
            _, shape, _ = engine.get_tensor_profile_shape(_WIDTH_INPUT, index)
            if tuple(shape) == width:
                self._context.set_optimization_profile_async(index, self._device.stream)
                return
        raise EngineError(f"program {self.program.id!r}: its engine has no profile for {width} tokens; compile again")

    def _bound(self, spec: TensorSpec) -> tuple[NDArray[Any], int]:
        """Memory of a tensor on the host and on the device, bound."""
        shape = tuple(int(d) for d in spec.shape)
        array = self._device.pinned(shape, np.dtype(spec.dtype))
        address = self._device.zeros(array.nbytes)
        self._bind(spec.name, address)
        if spec in self.program.inputs and not self._context.set_input_shape(spec.name, shape):
            raise EngineError(
                f"program {self.program.id!r}: its engine does not take {spec.name} {list(shape)}; compile again"
            )
        return array, address

    def _bind_cache(self, state: StateSpec, address: int, engine: Any) -> None:
        """One memory for a cache's outputs and the inputs they update, which the engine must have been built for."""
        outputs = (state.output, *state.also)
        inputs = [engine.get_aliased_input_tensor(name) for name in outputs]
        if state.name not in inputs or not all(inputs):
            raise EngineError(
                f"program {self.program.id!r}: its engine does not update {state.name!r} in place; compile it again"
            )
        for name in (*inputs, *outputs):
            self._bind(name, address)

    def _bind(self, name: str, address: int) -> None:
        if not self._context.set_tensor_address(name, address):
            raise EngineError(
                f"program {self.program.id!r}: its engine has no tensor {name!r}; compile the bundle again"
            )
