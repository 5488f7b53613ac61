"""8-bit linear layers in TensorRT's form against the core form."""

import numpy as np
import onnx_ir as ir
import pytest

from specc.core.inspection import tensor_of
from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from specc.passes.bake_topology import bake_topology
from specc.passes.narrow_linears import narrow_linears
from specc.passes.quantize_linears import quantize_linears
from tests.models.support import OrtEvaluator, Runner, oracle_runner, random_decoder, token_ids

PARTS = ("attention", "mlp", "head")


def lowered(model: ir.Model) -> ir.Model:
    return legalize(bake_topology(model.clone(), None), "tensorrt", OPS)


@pytest.mark.parametrize("row_scales", [False, True], ids=["blocks", "rows"])
def test_the_numbers_are_the_core_graphs(row_scales: bool) -> None:
    model = quantize_linears(random_decoder(), PARTS, row_scales=row_scales)
    form = lowered(model)
    found = Runner(form, OrtEvaluator(form, optimize=False)).feed(token_ids(9))
    expected = oracle_runner(model).feed(token_ids(9))
    assert np.abs(found - expected).max() <= 1e-4


def test_codes_are_signed_and_scales_positive() -> None:
    model = quantize_linears(random_decoder(), PARTS, row_scales=True)
    scale = next(v for n, v in model.graph.initializers.items() if n.endswith("scale"))
    scale.const_value = ir.Tensor(np.zeros(tensor_of(scale).shape.numpy(), np.float32), name=scale.name)
    nodes = [node for node in lowered(model).graph if node.op_type == "DequantizeLinear"]
    assert len(nodes) == 9
    for node in nodes:
        codes, scales = (tensor_of(v).numpy() for v in node.inputs if v is not None)
        assert codes.dtype == np.int8
        assert scales.shape == (codes.shape[0],)
        assert (scales > 0).all()


def test_products_run_in_the_scales_dtype() -> None:
    model = narrow_linears(quantize_linears(random_decoder(), PARTS, row_scales=True), scales=ir.DataType.FLOAT16)
    form = lowered(model)
    scales = {tensor_of(n.inputs[1]).dtype for n in form.graph if n.op_type == "DequantizeLinear" and n.inputs[1]}
    assert scales == {ir.DataType.FLOAT16}
    found = Runner(form, OrtEvaluator(form, optimize=False)).feed(token_ids(9))
    expected = oracle_runner(model).feed(token_ids(9))
    assert np.abs(found - expected).max() <= 2e-2 * np.abs(expected).max()
