import onnx_ir as ir

from specc.core.structure import without_weights
from tests.models.support import random_decoder


def test_initializers_become_inputs_in_a_copy() -> None:
    model = random_decoder()
    names = [v.name for v in model.graph.inputs], list(model.graph.initializers)
    structure = without_weights(model)
    assert [v.name for v in structure.graph.inputs] == names[0] + names[1]
    assert not structure.graph.initializers
    assert ([v.name for v in model.graph.inputs], list(model.graph.initializers)) == names
    assert ir.to_proto(structure).ByteSize() < 30_000
