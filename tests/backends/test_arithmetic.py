"""What records say products are computed in, against the graphs that backends make."""

from dataclasses import replace

import onnx_ir as ir
import pytest

from specc.backends import load_backend
from specc.backends.arithmetic import StoredPart
from specc.backends.migraphx.emit import narrowed
from specc.backends.migraphx.lowering import lower
from specc.backends.record import CoreModel
from specc.backends.tensorrt.graphs import stepping_graph
from specc.core.initializers import part_of
from specc.core.topology import chain
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.passes.bake_topology import bake_topology
from specc.passes.set_width import set_width
from specc.passes.trim_head import trim_head
from specc.targets import load_target
from tests.support.tensorrt_cores import NAMES, core, request

F32, F16, BF16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
PRODUCTS = {"Attention", "FusedMatMul", "MatMul"}
WIDTH = 3


def ort_graph(model: CoreModel) -> ir.Model:
    return legalize(bake_topology(model.graph.clone(), None), "ort", OPS)


def migraphx_graph(model: CoreModel) -> ir.Model:
    narrow = narrowed(replace(request("mi300x"), verifier=model)).verifier
    return lower(bake_topology(set_width(narrow.graph, WIDTH, 1), chain(WIDTH - 1)))


GRAPHS = {"ort": (ort_graph, "cpu"), "tensorrt": (stepping_graph, "a100"), "migraphx": (migraphx_graph, "mi300x")}


def multiplied_in(value: ir.Value, dtype: ir.DataType) -> set[str]:
    """The dtypes in which the products are computed that read a weight or a cache of `dtype`."""
    found = set()
    for node, index in ((use.node, use.idx) for use in value.uses()):
        if node.op_type in PRODUCTS:
            found.add(NAMES.get(dtype, "fp32"))
        elif node.op_type == "MatMulInteger" or node.attributes.get_int("accuracy_level", 0) == 4:
            found.add("int8")
        elif index == 0 and node.op_type in ("Cast", "ScatterND", "TensorScatter", "Transpose"):
            found |= multiplied_in(node.outputs[0], ir.DataType(node.attributes.get_int("to", dtype)))
        elif index == 0 and node.op_type in ("CastLike", "DequantizeLinear"):
            found |= multiplied_in(node.outputs[0], dtype_like(node.inputs[1]))
    return found


def dtype_like(value: ir.Value | None) -> ir.DataType:
    """The dtype of a weight, or of what was cast like one; anything else is fp32 here."""
    made = None if value is None else value.producer()
    if made is not None and made.op_type == "CastLike":
        return dtype_like(made.inputs[1])
    return (value is not None and value.dtype) or F32


def claimed(backend: str, part: str, stored: str, caches: str = "fp32", target: str | None = None) -> str:
    on = load_target(target or GRAPHS[backend][1])
    return load_backend(backend).computed(on, StoredPart(part, stored, caches))


@pytest.mark.parametrize("int8", [False, True], ids=["16 bits", "8 bits"])
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("backend", GRAPHS)
def test_linears_are_computed_in_what_the_record_says(backend: str, dtype: ir.DataType, int8: bool) -> None:
    model = core("verifier", state=dtype, weights=dtype, int8=int8)
    graph, caches = GRAPHS[backend][0](model), NAMES[dtype]
    seen: dict[str, set[str]] = {}
    for weight in graph.graph.initializers.values():
        if part_of(weight) in ("attention", "mlp", "head") and (found := multiplied_in(weight, weight.dtype or F32)):
            seen.setdefault(part_of(weight), set()).update(found)
    stored = "int8" if int8 else NAMES[dtype]
    assert seen == {part: {claimed(backend, part, stored, caches)} for part in ("attention", "mlp", "head")}


@pytest.mark.parametrize("wide", [False, True], ids=["as stored", "wide"])
@pytest.mark.parametrize("backend", GRAPHS)
@pytest.mark.parametrize("rows", [None, 40], ids=["whole table", "its first rows"])
def test_a_head_that_is_the_table(backend: str, wide: bool, rows: int | None) -> None:
    """In fp32 if it is to be, whatever its part is called; else as the record says of a head."""
    model = replace(core("verifier", state=F16, weights=F16, tie_word_embeddings=True), wide_head=wide)
    if rows is not None:
        trim_head(model.graph, rows)
    graph = GRAPHS[backend][0](model)
    tables = [v for v in graph.graph.initializers.values() if part_of(v) in ("embedding", "head")]
    found = set().union(*(multiplied_in(table, table.dtype or F32) for table in tables))
    assert found == {"fp32" if wide else claimed(backend, "head", "fp16", "fp16")}


@pytest.mark.parametrize("backend", ["tensorrt", "migraphx"])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_caches_are_multiplied_in_what_the_record_says(backend: str, dtype: ir.DataType) -> None:
    graph = GRAPHS[backend][0](core("verifier", state=dtype))
    caches = [v for v in graph.graph.inputs if str(v.name).startswith("past.")]
    found = set().union(*(multiplied_in(cache, dtype) for cache in caches))
    assert found == {claimed(backend, "kv", NAMES[dtype], NAMES[dtype])}


@pytest.mark.parametrize(
    ("stored", "computed"), [("fp16", "fp32"), ("fp32", "fp32"), ("int8", "int8"), ("bf16", "fp32")]
)
def test_the_cpu_widens_16_bits(stored: str, computed: str) -> None:
    assert {claimed("ort", part, stored) for part in ("attention", "mlp", "head", "draft")} == {computed}
    assert claimed("ort", "kv", "fp16") == "fp32"


@pytest.mark.parametrize("backend", ["ort", "tensorrt", "migraphx", "xla"])
def test_what_is_not_multiplied_is_widened(backend: str) -> None:
    for target in ("cpu", "a100", "tpu-v5e"):
        for part in ("embedding", "norm", "rope", "feature_rows"):
            assert claimed(backend, part, "bf16", "bf16", target) == "fp32"
