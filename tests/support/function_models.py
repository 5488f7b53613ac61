"""Model-local functions as runnable graphs: by onnx's reference evaluator, ONNX Runtime, and XLA if it is there."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from specc.core.building import Body, model, value
from specc.core.oracle import Oracle
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize

SIZE_INPUT = "vocabulary"  # an input that decides a shape: in a model it is a constant
F32, I64 = ir.DataType.FLOAT, ir.DataType.INT64
Array = NDArray[np.generic]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
ENGINES = ("oracle", "ort", "xla") if importlib.util.find_spec("jax") else ("oracle", "ort")


def graph_of(
    function: ir.Function,
    inputs: Mapping[str, tuple[ir.DataType, Sequence[int | str]]],
    outputs: Mapping[str, ir.DataType],
    functions: Sequence[ir.Function],
) -> ir.Model:
    """A graph that only calls `function`; `functions` are those it needs, itself included."""
    body = Body()
    fed = [value(name, shape, dtype) for name, (dtype, shape) in inputs.items()]
    made = body.call(function, *fed)
    for output, (name, dtype) in zip(made, outputs.items(), strict=True):
        output.name, output.dtype = name, dtype
    return model(function.name, fed, made, body, functions=functions)


def runner(graph: ir.Model, engine: str) -> Run:
    """Outputs by name for inputs by name; `graph` stays as it is."""
    if engine == "xla":
        return xla_run(graph)
    return Oracle(graph).run if engine == "oracle" else ort_run(legalize(graph.clone(), "ort", OPS))


def xla_run(graph: ir.Model) -> Run:
    """A core graph on XLA's CPU, compiled for each shape it is fed. Integers come back in 64 bits."""
    import jax

    from specc.backends.xla.interpreter import Interpreter

    interpreter = Interpreter(graph)
    compiled = jax.jit(interpreter.run)

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        fixed = {name: array for name, array in inputs.items() if name == SIZE_INPUT}
        fed = {name: array for name, array in inputs.items() if name not in fixed}
        made = compiled(fed) if not fixed else jax.jit(lambda given: interpreter.run({**fixed, **given}))(fed)
        made = {name: np.asarray(value) for name, value in made.items()}
        return {name: value.astype(np.int64) if value.dtype == np.int32 else value for name, value in made.items()}

    return run


def ort_run(graph: ir.Model) -> Run:
    """A legalised graph on ONNX Runtime's CPU, one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(ir.to_proto(graph).SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    return run
