"""A stand-in for Triton's Python backend: the classes a model.py uses, their signatures and refusals."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

FINAL = 1


class Tensor:
    """Strings come out as bytes objects, whatever they went in as."""

    def __init__(self, name: str, array: NDArray[Any]) -> None:
        assert array.dtype in (np.int32, np.int64, np.object_), "no dtype of config.pbtxt"
        self._name = name
        self._array = array
        if array.dtype == np.object_:
            texts = [value if isinstance(value, bytes) else str(value).encode() for value in array.reshape(-1)]
            self._array = np.array(texts, np.object_).reshape(array.shape)

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> NDArray[Any]:
        return self._array


class TritonError:
    INTERNAL, INVALID_ARG, CANCELLED = "INTERNAL", "INVALID_ARG", "CANCELLED"

    def __init__(self, message: str, code: str = INTERNAL) -> None:
        self._message, self._code = message, code

    def message(self) -> str:
        return self._message

    def code(self) -> str:
        return self._code


class TritonModelException(Exception):
    pass


class InferenceResponse:
    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def error(self) -> TritonError | None:
        return self._error


@dataclass
class Sender:
    """cancelled: told how many responses there were, says whether the client has gone."""

    cancelled: Callable[[int], bool]
    responses: list[InferenceResponse] = field(default_factory=list)
    closed: bool = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if self.closed:
            raise RuntimeError("Unable to send response. Response sender has been closed.")
        assert response is not None or flags == FINAL
        self.closed = flags == FINAL
        if response is not None:
            self.responses.append(response)

    def is_cancelled(self) -> bool:
        return self.cancelled(len(self.responses))


class Request:
    """One request: its inputs by name, and its parameters. Text is given as str."""

    def __init__(self, *, cancelled: Callable[[int], bool] = lambda _sent: False, **inputs: Any) -> None:
        self._parameters = inputs.pop("parameters", {})
        self._inputs = [Tensor(name, _array(value)) for name, value in inputs.items()]
        self.sender = Sender(cancelled)

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def parameters(self) -> str:
        return json.dumps(self._parameters) if self._parameters else ""

    def get_response_sender(self) -> Sender:
        return self.sender

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The responses as plain values by tensor name."""
        return [
            {tensor.name(): _plain(tensor.as_numpy()) for tensor in response.output_tensors()}
            for response in self.sender.responses
        ]

    @property
    def error(self) -> TritonError:
        """The error of the last response, which ended the request."""
        assert self.sender.closed
        error = self.sender.responses[-1].error()
        assert error is not None
        return error


def backend_module() -> ModuleType:
    """What `import triton_python_backend_utils` gives a model; `logged` holds what it wrote to the server's log."""
    module = ModuleType("triton_python_backend_utils")
    logged: list[str] = []
    names: dict[str, object] = {
        "Tensor": Tensor,
        "TritonError": TritonError,
        "TritonModelException": TritonModelException,
        "InferenceResponse": InferenceResponse,
        "Logger": type("Logger", (), {"log_error": staticmethod(logged.append)}),
        "TRITONSERVER_RESPONSE_COMPLETE_FINAL": FINAL,
        "logged": logged,
    }
    vars(module).update(names)
    return module


def _array(value: Any) -> NDArray[Any]:
    if isinstance(value, str | bytes):
        return np.array([value.encode() if isinstance(value, str) else value], np.object_)
    return np.array(value, np.int64)


def _plain(array: NDArray[Any]) -> Any:
    if array.dtype == np.object_:
        assert array.shape == (1,)
        return array[0].decode()
    return array.tolist()
