"""MIGraphX's Python module as its documentation and binding code describe it, computing with ONNX Runtime.

Only the calls specc makes, under their documented names and defaults. As the real one it keeps no output names, takes
device memory only (or pinned) where a program was compiled without offload copies, has no bf16 buffers, and leaves what
a program wrote to be seen after `gpu_sync`. A saved program is a line of JSON that names its ONNX file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

_TYPES = {"int64_type": np.int64, "float_type": np.float32, "half_type": np.float16, "bool_type": np.bool_}
FORMAT_VERSION = 8


class shape:
    def __init__(self, *, type: str = "float", lens: list[int]) -> None:
        self._type, self._lens = type, list(lens)

    def type_string(self) -> str:
        return self._type

    def lens(self) -> list[int]:
        return self._lens


class argument:
    """Memory of a kind: "host", "pinned" or "device". Python 3.11 classes give buffers by `__array__`."""

    def __init__(self, data: NDArray[Any], kind: str = "host") -> None:
        self._data, self.kind = data, kind
        if data.dtype.type not in _TYPES.values():
            raise RuntimeError(f"MIGRAPHX PYTHON: Unsupported data type {data.dtype}")

    def get_shape(self) -> shape:
        return _shape_of(self._data)

    def data_ptr(self) -> int:
        return int(self._data.ctypes.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self.kind == "device":
            raise RuntimeError("segmentation fault: the host reads device memory")
        return self._data


def _shape_of(array: NDArray[Any]) -> shape:
    return shape(type=next(n for n, t in _TYPES.items() if t == array.dtype.type), lens=list(array.shape))


class program:
    """A parsed ONNX file, and once it is compiled, a session over it."""

    def __init__(self, fake: "FakeMigraphx", path: str, compiled: Mapping[str, Any] | None = None) -> None:
        self._fake, self._path, self._options = fake, path, compiled
        model = onnx.load(path, load_external_data=False)
        self._outputs = [v.name for v in model.graph.output]
        self._aliases = {name: cache for name in self._outputs if (cache := _written_in_place(model.graph, name))}
        self._shapes = {v.name: _declared(v) for v in model.graph.input}
        self._output_shapes = [_declared(v) for v in model.graph.output]
        self._session: ort.InferenceSession | None = None

    def get_parameter_names(self) -> list[str]:
        return list(self.get_parameter_shapes())

    def get_parameter_shapes(self) -> dict[str, shape]:
        if not self._options or self._options["offload_copy"]:
            return dict(self._shapes)
        names = self._fake.output_names(len(self._outputs))
        shapes = zip(names, self._output_shapes, self._outputs, strict=True)
        return self._shapes | {name: declared for name, declared, output in shapes if output not in self._aliases}

    def get_output_shapes(self) -> list[shape]:
        return self._output_shapes

    def is_compiled(self) -> bool:
        return self._options is not None

    def compile(self, t: str, offload_copy: bool = True, fast_math: bool = True, exhaustive_tune: bool = False) -> None:
        self._options = {"offload_copy": offload_copy, "fast_math": fast_math, "exhaustive_tune": exhaustive_tune}
        self._fake.compiled.append((Path(self._path).name, t, dict(self._options)))

    def run(self, params: Mapping[str, argument]) -> list[argument]:
        if self._options is None or self._options["offload_copy"]:
            raise RuntimeError("this fake runs programs compiled without offload copies")
        shapes = self.get_parameter_shapes()
        if params.keys() != shapes.keys():
            raise RuntimeError(f"Missing parameter: {sorted(params.keys() ^ shapes.keys())}")
        for name, given in params.items():
            if given.kind == "host":
                raise RuntimeError(f"segmentation fault: the device reads host memory in {name}")
            if (given.get_shape().type_string(), given.get_shape().lens()) != (
                shapes[name].type_string(),
                shapes[name].lens(),
            ):
                raise RuntimeError(f"Incorrect shape {given.get_shape().lens()} for parameter: {name}")
        if self._session is None:
            self._session = ort.InferenceSession(self._path, providers=["CPUExecutionProvider"])
        fed = {name: params[name]._data for name in self._shapes}
        made = self._session.run(self._outputs, fed)
        names = zip(self._outputs, self._fake.output_names(len(made)), strict=True)
        bound = [params[self._aliases.get(output, name)] for output, name in names]
        self._fake.pending += [(argument_._data, array) for argument_, array in zip(bound, made, strict=True)]
        return self._fake.results(bound)


def _written_in_place(graph: onnx.GraphProto, name: str) -> str | None:
    """The input that an output is, where nodes write a cache without a copy of it: it has no parameter of its own."""
    made = {output: (node, place) for node in graph.node for place, output in enumerate(node.output)}
    while name in made and made[name][0].op_type == "GroupQueryAttention":
        node, place = made[name]
        name = node.input[2 + place]
    return name if name not in made else None


def _declared(value: onnx.ValueInfoProto) -> shape:
    tensor = value.type.tensor_type
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).type
    return shape(type=next(n for n, t in _TYPES.items() if t == kind), lens=[d.dim_value for d in tensor.shape.dim])


class FakeMigraphx(ModuleType):
    """The module. compiled: (file, target, options) of every compile."""

    def __init__(self, version: str = "2.15.0.dev+20260101-17") -> None:
        super().__init__("migraphx")
        self.__version__ = version
        self.shape, self.argument, self.program = shape, argument, program
        self.compiled: list[tuple[str, str, dict[str, Any]]] = []
        self.pending: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.synchronised = 0

    def output_names(self, count: int) -> list[str]:
        return [f"main:#output_{place}" for place in range(count)]

    def results(self, bound: list[argument]) -> list[argument]:
        return list(bound)

    def get_target(self, name: str) -> str:
        return name

    def parse_onnx(self, filename: str, default_dim_value: int = 0) -> program:
        return program(self, filename)

    def save(self, p: program, filename: str, format: str = "msgpack") -> None:
        text = json.dumps({"version": FORMAT_VERSION, "onnx": p._path, "options": p._options})
        Path(filename).write_text(text, encoding="utf-8")

    def load(self, filename: str, format: str = "msgpack") -> program:
        saved = json.loads(Path(filename).read_text(encoding="utf-8"))
        if saved["version"] != FORMAT_VERSION:
            raise RuntimeError(f"Error: Program version mismatch. Expected {FORMAT_VERSION}, found {saved['version']}")
        return program(self, saved["onnx"], saved["options"])

    def allocate_gpu(self, s: shape, host: bool = False) -> argument:
        garbage = np.full(s.lens(), 113, _TYPES[s.type_string()])
        return argument(garbage, "pinned" if host else "device")

    def to_gpu(self, arg: argument, host: bool = False) -> argument:
        return argument(np.array(arg._data), "pinned" if host else "device")

    def from_gpu(self, arg: argument) -> argument:
        self.gpu_sync()
        return argument(np.array(arg._data))

    def gpu_sync(self) -> None:
        """What programs wrote becomes visible."""
        self.synchronised += 1
        for memory, array in self.pending:
            memory[...] = array
        self.pending.clear()
