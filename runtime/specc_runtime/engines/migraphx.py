"""MIGraphX on AMD GPUs.

Programs are .mxr files that the bundle's own script built on this machine, compiled without copies of their own. Every
cache is one piece of device memory, bound as input and output of each program that uses it: MIGraphX first copies a
cache into its output, value by value onto itself, then scatters the new rows. What crosses to the host (tokens,
uniforms, logits, ids) lies in pinned memory that device and host both see.
Where MIGraphX's Python module is missing, onnxruntime-migraphx runs the ONNX the files are built from.
"""

from importlib import import_module
from typing import Any

import numpy as np

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import Programs
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.fixed_widths import FixedWidthPrograms
from specc_runtime.engines.migraphx_machine import BUILD_SCRIPT, this_machine
from specc_runtime.errors import EngineError, first_line
from specc_runtime.manifest import Program, StateSpec, TensorSpec

INSTALL = "install ROCm's migraphx package and add /opt/rocm/lib to PYTHONPATH, or pip install onnxruntime-migraphx"
_TYPES = {"int64": "int64_type", "float32": "float_type", "float16": "half_type"}  # those its buffers may have


def load(bundle: Bundle, *, threads: int | None, fused: bool) -> Programs:
    """Load the programs of `bundle`, rounds included, whatever `threads` and `fused`; see `engines.load_programs`."""
    try:
        migraphx: Any = import_module("migraphx")
    except ImportError as error:
        return _by_onnxruntime(bundle, error)
    return _built(bundle, migraphx)


def _by_onnxruntime(bundle: Bundle, error: ImportError) -> Programs:
    try:
        second = import_module("specc_runtime.engines.migraphx_ort")
    except EngineError as also:
        raise EngineError(
            f"this bundle runs on MIGraphX, which can't be imported ({error}; {also}): {INSTALL}"
        ) from None
    programs: Programs = second.load(bundle)
    return programs


def _built(bundle: Bundle, migraphx: Any) -> Programs:
    programs = [program for program in bundle.manifest.programs if program.built]
    if not programs:
        raise EngineError(
            f"{bundle.root}: its programs are not built yet: run `python {BUILD_SCRIPT}` in that folder on this machine"
        )
    machine = this_machine(getattr(migraphx, "__version__", ""))
    if lacking := machine.lacks(dict.fromkeys(r for program in programs for r in program.requires)):
        raise EngineError(
            f"{bundle.root}: built for {' and '.join(lacking)}: run `python {BUILD_SCRIPT}` in that folder here"
        )
    buffers = _Buffers(migraphx)
    return FixedWidthPrograms(
        bundle, programs, lambda program: _Mxr(bundle, program, migraphx, buffers), buffers.zero
    )  # fmt: skip


class _Buffers:
    """The state, by owner and role, each one piece of device memory."""

    def __init__(self, migraphx: Any) -> None:
        self._migraphx = migraphx
        self._held: dict[tuple[str, str], Any] = {}

    def __getitem__(self, state: StateSpec) -> Any:
        key = (state.owner, state.role)
        if key not in self._held:
            if state.dtype not in _TYPES:
                raise EngineError(
                    f"state {state.name!r}: the migraphx engine has no caches of dtype {state.dtype}; re-compile"
                )
            zeros = np.zeros(state.shape, state.dtype)
            self._held[key] = self._migraphx.to_gpu(self._migraphx.argument(zeros))
        return self._held[key]

    def zero(self) -> None:
        """New memory for every cache, the old one returned first."""
        self._held.clear()


class _Mxr:
    """One .mxr, its inputs and outputs bound to memory of its own, its state to the shared buffers."""

    def __init__(self, bundle: Bundle, program: Program, migraphx: Any, buffers: _Buffers) -> None:
        self.program = program
        self._file = bundle.path(program.file)
        self._migraphx, self._buffers = migraphx, buffers
        try:
            self._loaded = migraphx.load(str(self._file))
        except Exception as error:  # the engine's own exceptions are plain RuntimeErrors
            raise EngineError(f"{self._file}: {first_line(error)}; run `python {BUILD_SCRIPT}` again") from error
        self._shapes = self._loaded.get_parameter_shapes()
        self._checked = False
        self._inputs = {tensor.name: self._pinned(tensor, tensor.name) for tensor in program.inputs}
        self._outputs = {
            tensor.name: self._pinned(tensor, _output(place)) for place, tensor in enumerate(program.outputs)
        }
        first = len(program.outputs)
        self._views = {name: np.asarray(memory) for name, (_, memory) in (self._inputs | self._outputs).items()}
        self._states = [(state, self._parameters(state, place)) for place, state in enumerate(program.state, first)]
        for state, parameters in self._states:
            for parameter in parameters:
                self._check_shape(parameter, state.dtype, state.shape)

    def __call__(self, inputs: Arrays) -> Arrays:
        for name, array in inputs.items():
            self._views[name][...] = array
        parameters = dict((*self._inputs.values(), *self._outputs.values()))
        for state, names in self._states:
            parameters |= dict.fromkeys(names, self._buffers[state])
        try:
            results = self._loaded.run(parameters)
            self._migraphx.gpu_sync()
        except Exception as error:  # the engine's own exceptions are plain RuntimeErrors
            raise EngineError(f"{self._file}: {first_line(error)}; build it again: `python {BUILD_SCRIPT}`") from error
        if not self._checked:
            self._check_places(results)
        return {tensor.name: self._views[tensor.name] for tensor in self.program.outputs}

    def _pinned(self, tensor: TensorSpec, parameter: str) -> tuple[str, Any]:
        """A parameter's name, and memory for it that host and device both see."""
        shape = self._check_shape(parameter, tensor.dtype, tensor.shape)
        return parameter, self._migraphx.allocate_gpu(shape, host=True)

    def _check_shape(self, parameter: str, dtype: str, shape: tuple[int | str, ...]) -> Any:
        """The parameter's shape in the file, which must be the manifest's."""
        found = self._shapes.get(parameter)
        asked = f"{_TYPES.get(dtype, dtype)} {list(shape)}"
        has = "nothing of that name" if found is None else f"{found.type_string()} {list(found.lens())}"
        if has != asked:
            raise EngineError(
                f"{self._file}: parameter {parameter!r} must be {asked}, the file has {has}; "
                f"run `python {BUILD_SCRIPT}` again"
            )
        return found

    def _parameters(self, state: StateSpec, place: int) -> tuple[str, ...]:
        """What a cache is bound to: an input, and an output unless the program writes the input itself."""
        return (state.name, _output(place)) if _output(place) in self._shapes else (state.name,)

    def _check_places(self, results: list[Any]) -> None:
        """Every output must lie where it was bound: a cache written elsewhere would be lost, silently."""
        self._checked = True
        caches = [self._buffers[state] for state in self.program.state]
        bound = [*(memory for _, memory in self._outputs.values()), *caches]
        for place, (result, memory) in enumerate(zip(results, bound, strict=True)):
            if result.data_ptr() != memory.data_ptr():
                raise EngineError(
                    f"{self._file}: output {place} was not written to the memory bound to it; this MIGraphX names its "
                    "outputs otherwise: build with the version in the manifest"
                )


def _output(place: int) -> str:
    """The parameter that takes output `place`; MIGraphX keeps no names of outputs."""
    return f"main:#output_{place}"
