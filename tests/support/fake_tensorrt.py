"""A CUDA device and TensorRT's runtime, as far as the tensorrt engine calls them, on host memory and ONNX Runtime.

Device memory is host memory; an engine file holds the profiles and an ONNX model. What is queued on the stream runs
when the stream is synchronised, as late as a GPU may run it. Copies outside of allocated memory, and those of pageable
host memory, are refused.
"""

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from specc_runtime.manifest import Manifest

STREAM = 7
ENGINE_VERSION = "11.1.0"
_HEADER = 8

Shapes = Mapping[str, Sequence[int]]


class CudaError(Enum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorInsufficientDriver = 35
    cudaErrorNoDevice = 100


class FakeCuda:
    """cuda.bindings.runtime with one device. calls: names of the functions called, in order."""

    cudaError_t = CudaError
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)
    cudaDeviceAttr = SimpleNamespace(cudaDevAttrComputeCapabilityMajor=75, cudaDevAttrComputeCapabilityMinor=76)

    def __init__(
        self, capability: tuple[int, int] = (9, 0), devices: int = 1, error: CudaError = CudaError.cudaSuccess
    ):
        self.calls: list[str] = []
        self._capability, self._devices, self._error = capability, devices, error
        self._memory: dict[str, dict[int, Any]] = {"device": {}, "pinned": {}}
        self._queue: list[Callable[[], None]] = []
        self._capturing: list[Callable[[], None]] | None = None

    def cudaGetDeviceCount(self) -> tuple[Any, ...]:
        return self._error, self._devices

    def cudaGetErrorString(self, error: CudaError) -> tuple[Any, ...]:
        return CudaError.cudaSuccess, error.name.encode()

    def cudaDeviceGetAttribute(self, attribute: int, device: int) -> tuple[Any, ...]:
        return self._noted("cudaDeviceGetAttribute", self._capability[attribute - 75])

    def cudaStreamCreate(self) -> tuple[Any, ...]:
        return self._noted("cudaStreamCreate", STREAM)

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:
        return self._noted("cudaMalloc", self._allocated("device", size))

    def cudaMallocHost(self, size: int) -> tuple[Any, ...]:
        return self._noted("cudaMallocHost", self._allocated("pinned", size))

    def cudaMemsetAsync(self, address: int, value: int, size: int, stream: int) -> tuple[Any, ...]:
        self._check("device", address, size)
        return self._queued("cudaMemsetAsync", stream, lambda: ctypes.memset(address, value, size))

    def cudaMemcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> tuple[Any, ...]:
        host, device = (source, to) if kind == self.cudaMemcpyKind.cudaMemcpyHostToDevice else (to, source)
        self._check("pinned", host, size)
        self._check("device", device, size)
        return self._queued("cudaMemcpyAsync", stream, lambda: ctypes.memmove(to, source, size))

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> tuple[Any, ...]:
        self._capturing = []
        return self._noted("cudaStreamBeginCapture")

    def cudaStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        captured, self._capturing = self._capturing, None
        return self._noted("cudaStreamEndCapture", captured)

    def cudaGraphInstantiate(self, graph: Any, flags: int) -> tuple[Any, ...]:
        return self._noted("cudaGraphInstantiate", graph)

    def cudaGraphLaunch(self, graph: list[Callable[[], None]], stream: int) -> tuple[Any, ...]:
        return self._queued("cudaGraphLaunch", stream, *graph)

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        assert self._capturing is None, "synchronised while capturing"
        for run in self._queue:
            run()
        self._queue.clear()
        return self._noted("cudaStreamSynchronize")

    def enqueue(self, run: Callable[[], None]) -> None:
        (self._queue if self._capturing is None else self._capturing).append(run)

    def _queued(self, name: str, stream: int, *runs: Callable[[], Any]) -> tuple[Any, ...]:
        assert stream == STREAM
        for run in runs:
            self.enqueue(run)
        return self._noted(name)

    def _noted(self, name: str, *given: Any) -> tuple[Any, ...]:
        self.calls.append(name)
        return CudaError.cudaSuccess, *given

    def _allocated(self, kind: str, size: int) -> int:
        memory = ctypes.create_string_buffer(b"\xff" * size, size)  # NaN, where it is not zeroed
        self._memory[kind][ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def _check(self, kind: str, address: int, size: int) -> None:
        starts = [s for s, memory in self._memory[kind].items() if s <= address and address + size <= s + len(memory)]
        assert starts, f"{size} bytes at {address} are no {kind} memory"


class FakeTensorrt:
    """The module tensorrt, or tensorrt_rtx. contexts: those made so far. copied: outputs that engines do not alias."""

    def __init__(self, cuda: FakeCuda, version: str = ENGINE_VERSION) -> None:
        self.__version__ = version
        self.cuda, self.contexts, self.copied = cuda, list[FakeContext](), set[str]()
        self.Logger = type("Logger", (), {"ERROR": 1, "__init__": lambda self, severity: None})

    def Runtime(self, logger: Any) -> "FakeTensorrt":
        return self

    def deserialize_cuda_engine(self, content: bytes) -> "FakeEngine | None":
        return FakeEngine(self, content) if content[:4] == b"fake" else None


class FakeEngine:
    def __init__(self, trt: FakeTensorrt, content: bytes) -> None:
        self._trt = trt
        length = int.from_bytes(content[4:_HEADER], "little")
        self._profiles: list[Shapes] = json.loads(content[_HEADER : _HEADER + length])
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(content[_HEADER + length :], options)
        self.num_optimization_profiles = max(1, len(self._profiles))

    def get_tensor_profile_shape(self, name: str, index: int) -> list[tuple[int, ...]]:
        return [tuple(self._profiles[index][name])] * 3

    def get_aliased_input_tensor(self, name: str) -> str | None:
        return None if name in self._trt.copied else _updated_inputs(self.session).get(name)

    def create_execution_context(self) -> "FakeContext":
        self._trt.contexts.append(FakeContext(self._trt.cuda, self.session, self._profiles))
        return self._trt.contexts[-1]


class FakeContext:
    """addresses: what is bound to each tensor."""

    def __init__(self, cuda: FakeCuda, session: onnxruntime.InferenceSession, profiles: list[Shapes]) -> None:
        self._cuda, self._session, self._profiles = cuda, session, profiles
        self._profile: Shapes = profiles[0] if len(profiles) == 1 else {}
        self._inputs = {v.name: v for v in session.get_inputs()}
        self._outputs = {v.name: v for v in session.get_outputs()}
        self._shapes = {name: tuple(v.shape) for name, v in self._inputs.items()}
        self.addresses: dict[str, int] = {}

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        self._profile = self._profiles[index]
        return stream == STREAM

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        if tuple(self._profile.get(name, self._shapes[name])) != shape:
            return False
        self._shapes[name] = shape
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        if name not in self._inputs and name not in self._outputs:
            return False
        self.addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        static = all(isinstance(d, int) for shape in self._shapes.values() for d in shape)
        if stream != STREAM or not static or set(self.addresses) != set(self._inputs) | set(self._outputs):
            return False
        bound = dict(self.addresses)
        self._cuda.enqueue(lambda: self._run(bound))
        return True

    def _run(self, addresses: Mapping[str, int]) -> None:
        fed = {name: _at(addresses[name], self._shapes[name], v.type).copy() for name, v in self._inputs.items()}
        names = list(self._outputs)
        steps = [name for name in names if "after_" in name]
        for _ in range(1 + max((_step(name) for name in steps), default=0)):  # in place: a step finds the one before's
            made = dict(zip(names, self._session.run(names, fed), strict=True))
            following = {f"{_cache(name)}.again_{_step(name)}": made[name] for name in steps}
            fed |= {name: array for name, array in following.items() if name in fed}
        for name in [*steps, *(name for name in names if name not in steps)]:  # on one memory, the last is what stays
            _at(addresses[name], made[name].shape, self._outputs[name].type)[...] = made[name]


def _updated_inputs(session: onnxruntime.InferenceSession) -> dict[str, str]:
    """The input whose memory each cache output is: of several steps in place, each has one of its own."""
    inputs = {v.name for v in session.get_inputs()}
    pairs = {}
    for name in (v.name for v in session.get_outputs()):
        if "present." in name:
            past = name.replace("present.", "past.")
            again = [n for n in inputs if n.startswith(f"{past}.again_")]
            pairs[name] = max(again, key=lambda n: int(n.rpartition("_")[2]), default=past)
        elif "after_" in name:
            pairs[name] = _cache(name) if _step(name) == 1 else f"{_cache(name)}.again_{_step(name) - 1}"
    return pairs


def _cache(output: str) -> str:
    """`drafter.past.0.key` of `drafter.after_2.0.key`."""
    owner, _, rest = output.partition("after_")
    return f"{owner}past.{rest.partition('.')[2]}"


def _step(output: str) -> int:
    return int(output.partition("after_")[2].partition(".")[0])


def _at(address: int, shape: Sequence[int], onnx_type: str) -> NDArray[Any]:
    """The array at an address."""
    names = {"float": np.float32, "float16": np.float16, "int64": np.int64}
    dtype = np.dtype(names[onnx_type.removeprefix("tensor(").removesuffix(")")])
    size = int(np.prod(shape)) * dtype.itemsize
    return np.ctypeslib.as_array((ctypes.c_byte * size).from_address(address)).view(dtype).reshape(shape)


def build_fake_engines(bundle: Path, manifest: Manifest) -> None:
    """What the build script of a portable bundle does, for the fake: an .engine file beside each .onnx file."""
    for file in {program.file for program in manifest.programs}:
        model = onnx.load(bundle / file, load_external_data=False)
        onnx.load_external_data_for_model(model, str(bundle))
        profiles = {
            program.width: {t.name: t.shape for t in program.inputs}
            for program in manifest.programs
            if program.file == file and program.kind != "round"
        }
        header = json.dumps(list(profiles.values())).encode()
        content = b"fake" + len(header).to_bytes(4, "little") + header + model.SerializeToString()
        (bundle / file).with_suffix(".engine").write_bytes(content)
