"""One CUDA device through cuda-python: memory, one stream, and calls captured as graphs.

Every call is queued on the one stream; only `synchronize` waits.
"""

import ctypes
from collections.abc import Callable
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specc_runtime.errors import EngineError

INSTALL = "pip install cuda-python"
_NO_DRIVER = ("cudaErrorInsufficientDriver", "cudaErrorNoDevice")


def load_cuda() -> ModuleType:
    """The module cuda.bindings.runtime. Raises EngineError: not installed."""
    try:
        return import_module("cuda.bindings.runtime")
    except ImportError as error:
        raise EngineError(f"this bundle needs cuda-python, which can't be imported ({error}): {INSTALL}") from None


class CudaDevice:
    """The first device. Raises EngineError: no driver, no GPU, or a call that failed, named."""

    def __init__(self, cuda: ModuleType) -> None:
        self._cuda = cuda
        self._check_driver()
        major, minor = (self._attribute(f"cudaDevAttrComputeCapability{part}") for part in ("Major", "Minor"))
        self.architecture = f"sm{major}{minor}"
        self.stream = self._done("cudaStreamCreate")

    def zeros(self, size: int) -> int:
        """Address of `size` bytes on the device, zeroed; they live as long as the process."""
        address = int(self._done("cudaMalloc", max(size, 1)))
        self.zero(address, size)
        return address

    def zero(self, address: int, size: int) -> None:
        self._done("cudaMemsetAsync", address, 0, size, self.stream)

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array in page-locked host memory, which copies can run from and to without waiting."""
        size = prod(shape) * dtype.itemsize
        address = int(self._done("cudaMallocHost", max(size, 1)))
        content = (ctypes.c_byte * size).from_address(address)
        array: NDArray[Any] = np.ctypeslib.as_array(content).view(dtype).reshape(shape)
        return array

    def upload(self, address: int, array: NDArray[Any]) -> None:
        """Queue a copy of a pinned array to the device."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._done("cudaMemcpyAsync", address, array.ctypes.data, array.nbytes, kind, self.stream)

    def download(self, array: NDArray[Any], address: int) -> None:
        """Queue a copy from the device into a pinned array."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._done("cudaMemcpyAsync", array.ctypes.data, address, array.nbytes, kind, self.stream)

    def captured(self, queue: Callable[[], None]) -> Callable[[], None]:
        """What `queue` puts on the stream, as a graph that is launched in one call. Nothing runs now."""
        mode = self._cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._done("cudaStreamBeginCapture", self.stream, mode)
        try:
            queue()
        finally:
            graph = self._done("cudaStreamEndCapture", self.stream)
        ready = self._done("cudaGraphInstantiate", graph, 0)

        def launch() -> None:
            self._done("cudaGraphLaunch", ready, self.stream)

        return launch

    def synchronize(self) -> None:
        """Wait until everything queued is done."""
        self._done("cudaStreamSynchronize", self.stream)

    def _attribute(self, name: str) -> int:
        return int(self._done("cudaDeviceGetAttribute", getattr(self._cuda.cudaDeviceAttr, name), 0))

    def _check_driver(self) -> None:
        error, count = self._cuda.cudaGetDeviceCount()
        if error.name in _NO_DRIVER or (error == self._cuda.cudaError_t.cudaSuccess and not count):
            raise EngineError(
                "this bundle runs on an NVIDIA GPU, and no driver finds one here: install the driver, or compile with "
                "--target cpu"
            )
        self._raise_unless_success("cudaGetDeviceCount", error)

    def _done(self, name: str, *arguments: Any) -> Any:
        """Call a function of the CUDA runtime; what it gives besides its error code."""
        error, *given = getattr(self._cuda, name)(*arguments)
        self._raise_unless_success(name, error)
        return given[0] if given else None

    def _raise_unless_success(self, name: str, error: Any) -> None:
        if error == self._cuda.cudaError_t.cudaSuccess:
            return
        _, text = self._cuda.cudaGetErrorString(error)
        words = text.decode() if isinstance(text, bytes) else str(text)
        raise EngineError(f"{name} failed on the GPU: {words}; close what else uses it, and load the bundle anew")
