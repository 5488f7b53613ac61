import onnx_ir as ir
import pytest

from specc.backends.record import CoreModel, tensor_spec
from specc.core.building import value
from specc.models.decoder import DecoderShape
from specc_runtime.manifest import StateSpec, TensorSpec
from tests.models.support import random_decoder


def test_state_pairs_inputs_with_outputs() -> None:
    graph = random_decoder(shape=DecoderShape(48, state=ir.DataType.FLOAT16))
    core = CoreModel("verifier", graph, head_rows=61, cache_rows=48)
    state = core.state()
    assert state[0] == StateSpec("past.0.key", "present.0.key", "verifier", "layers.0.key", "float16", (1, 2, 48, 16))
    assert [s.role for s in state] == [f"layers.{i}.{part}" for i in range(2) for part in ("key", "value")]
    assert {s.output for s in state} < {v.name for v in graph.graph.outputs}


def test_tensor_spec_keeps_open_dimensions_by_name() -> None:
    assert tensor_spec(value("x", [1, "S", 3], ir.DataType.BFLOAT16)) == TensorSpec("x", "bfloat16", (1, "S", 3))
    with pytest.raises(ValueError, match="'x' has no dtype or shape"):
        tensor_spec(value("x"))


def test_features_belong_to_the_drafter_wherever_they_are_kept() -> None:
    def features(role: str, name: str) -> StateSpec:
        graph = ir.Graph([value(name, [1, 9, 4], ir.DataType.FLOAT)], [], nodes=[], opset_imports={"": 24})
        (state,) = CoreModel(role, ir.Model(graph, ir_version=13), head_rows=1, cache_rows=9).state()
        return state

    kept, read = features("verifier", "past.features.my.drafter"), features("my.drafter", "past.features")
    assert (kept.owner, kept.role, kept.output) == ("my.drafter", "features", "present.features.my.drafter")
    assert (read.owner, read.role, read.output) == ("my.drafter", "features", "present.features")
