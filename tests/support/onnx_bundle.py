"""A bundle of hand-written ONNX programs: a cache that holds the tokens, logits that depend on all of them."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from specc_runtime.manifest import (
    MANIFEST_NAME,
    DrafterInfo,
    FileEntry,
    Manifest,
    ModelInfo,
    Program,
    StateSpec,
    TensorSpec,
)
from specc_runtime.manifest_writing import manifest_json
from specc_runtime.params import OPTIONS

VOCABULARY, CONTEXT, SLACK, MAX_WIDTH = 7, 20, 4, 6
ROWS = CONTEXT + SLACK
WEIGHTS = np.random.default_rng(0).normal(size=(64, VOCABULARY)).astype(np.float32)
OPSET = 24


def expected_logits(tokens: list[int]) -> NDArray[np.float32]:
    """Logits after `tokens`, float32 [V]."""
    return WEIGHTS[tokens[-1]] + WEIGHTS[sum(tokens) % 57 + VOCABULARY]


def write_onnx_bundle(root: Path, *, with_round: bool = False, requires: tuple[str, ...] = ("ort>=1.20",)) -> Path:
    """Write the bundle to `root`: verifier, a drafter "draft" of the same graph, optionally a round program."""
    (root / "programs").mkdir(parents=True)
    (root / "weights.safetensors").write_bytes(b"12345678" + WEIGHTS.tobytes())
    (root / "programs" / "model.onnx").write_bytes(_stepping_model().SerializeToString())
    programs = [
        _stepping_program("v", "verify", "verifier", None, requires),
        _stepping_program("d", "draft", "draft", "draft", requires),
    ]
    if with_round:
        (root / "programs" / "round.onnx").write_bytes(_round_model().SerializeToString())
        programs.append(_round_program())
    model = ModelInfo("hand", "hand", 1, 1, VOCABULARY, CONTEXT, WEIGHTS.size)
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    manifest = Manifest(
        specc_version="0", target="cpu", backend="ort", context=CONTEXT, slack=SLACK, gammas=(2,), gamma=2,
        verifier=model, drafters={"draft": DrafterInfo("model", model)}, topologies={}, programs=tuple(programs),
        precision=(), files={name: _entry(path) for name, path in files.items()},
    )  # fmt: skip
    (root / MANIFEST_NAME).write_text(manifest_json(manifest))
    return root


def _entry(path: Path) -> FileEntry:
    data = path.read_bytes()
    return FileEntry(len(data), hashlib.sha256(data).hexdigest())


def _stepping_model() -> onnx.ModelProto:
    """Writes the tokens to the cache and looks up rows by the last token and by the sum of all of them."""
    nodes = [
        helper.make_node("Cast", ["tokens"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["floats", "as_rows"], ["written"]),
        helper.make_node("TensorScatter", ["past.0.key", "written", "position"], ["present.0.key"], axis=2),
        helper.make_node("CumSum", ["present.0.key", "axis"], ["sums"]),
        helper.make_node("Add", ["rows", "position"], ["places"]),
        helper.make_node("Gather", ["sums", "places"], ["sum_rows"], axis=2),
        helper.make_node("Reshape", ["sum_rows", "flat"], ["sum_list"]),
        helper.make_node("Cast", ["sum_list"], ["sum_ints"], to=TensorProto.INT64),
        helper.make_node("Mod", ["sum_ints", "modulus"], ["remainders"]),
        helper.make_node("Add", ["remainders", "offset"], ["sum_ids"]),
        helper.make_node("Gather", ["weights", "sum_ids"], ["by_sum"], axis=0),
        helper.make_node("Gather", ["tokens", "rows"], ["last"], axis=1),
        helper.make_node("Gather", ["weights", "last"], ["by_last"], axis=0),
        helper.make_node("Add", ["by_last", "by_sum"], ["logits"]),
    ]
    constants = {"as_rows": [1, 1, -1, 1], "axis": 2, "flat": [1, -1], "modulus": [57], "offset": [VOCABULARY]}
    initializers = [_int64(name, value) for name, value in constants.items()]
    weights = onnx.TensorProto(
        name="weights", data_type=TensorProto.FLOAT, dims=WEIGHTS.shape, data_location=onnx.TensorProto.EXTERNAL
    )
    for key, value in {"location": "weights.safetensors", "offset": 8, "length": WEIGHTS.nbytes}.items():
        weights.external_data.add(key=key, value=str(value))
    cache = (TensorProto.FLOAT, [1, 1, ROWS, 1])
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "S"]),
        helper.make_tensor_value_info("position", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("rows", TensorProto.INT64, ["R"]),
        helper.make_tensor_value_info("past.0.key", *cache),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "R", VOCABULARY]),
        helper.make_tensor_value_info("present.0.key", *cache),
    ]
    return _model(nodes, inputs, outputs, [*initializers, weights])


def _round_model() -> onnx.ModelProto:
    """Not a real round: ids are what was fed, so that a test sees where each input went."""
    nodes = [
        helper.make_node("ReduceSum", ["uniforms"], ["u"], keepdims=0),
        helper.make_node("Sum", ["u", "temperature", "top_p", "min_p"], ["floats"]),
        helper.make_node("Cast", ["floats"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Concat", ["position", "top_k", "whole"], ["list"], axis=0),
        helper.make_node("Reshape", ["list", "row"], ["ids"]),
        helper.make_node("ReduceSum", ["tokens"], ["total"], keepdims=0),
        helper.make_node("Reshape", ["total", "one"], ["count"]),
        helper.make_node("Identity", ["past.0.key"], ["present.0.key"]),
    ]
    numbers = dict.fromkeys(("temperature", "top_p", "min_p"), TensorProto.FLOAT)
    numbers |= {"position": TensorProto.INT64, "top_k": TensorProto.INT64}
    cache = (TensorProto.FLOAT, [1, 1, ROWS, 1])
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 2]),
        helper.make_tensor_value_info("uniforms", TensorProto.FLOAT, [1, 5]),
        *(helper.make_tensor_value_info(name, dtype, [1]) for name, dtype in numbers.items()),
        helper.make_tensor_value_info("past.0.key", *cache),
    ]
    outputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 3]),
        helper.make_tensor_value_info("count", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("present.0.key", *cache),
    ]
    return _model(nodes, inputs, outputs, [_int64("row", [1, -1]), _int64("one", [1])])


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "hand", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11)


def _int64(name: str, value: int | list[int]) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(value, np.int64), name)


def _state(owner: str) -> StateSpec:
    return StateSpec("past.0.key", "present.0.key", owner, "layers.0.key", "float32", (1, 1, ROWS, 1))


def _stepping_program(key: str, kind: str, owner: str, drafter: str | None, requires: tuple[str, ...]) -> Program:
    return Program(
        id=key, kind=kind, file="programs/model.onnx",
        inputs=(TensorSpec("tokens", "int64", (1, "S")), TensorSpec("position", "int64", (1,)),
                TensorSpec("rows", "int64", ("R",))),
        outputs=(TensorSpec("logits", "float32", (1, "R", VOCABULARY)),),
        state=(_state(owner),), max_width=MAX_WIDTH, drafter=drafter, options=tuple(OPTIONS), requires=requires,
    )  # fmt: skip


def _round_program() -> Program:
    number = [TensorSpec(name, "float32", (1,)) for name in ("temperature", "top_p", "min_p")]
    return Program(
        id="r", kind="round", file="programs/round.onnx",
        inputs=(TensorSpec("tokens", "int64", (1, 2)), TensorSpec("position", "int64", (1,)),
                TensorSpec("uniforms", "float32", (1, 5)), TensorSpec("top_k", "int64", (1,)), *number),
        outputs=(TensorSpec("ids", "int64", (1, 3)), TensorSpec("count", "int64", (1,))),
        state=(_state("verifier"),), width=3, max_width=3, drafter="draft", accept="graph", options=("greedy",),
    )  # fmt: skip
