import numpy as np
import onnx_ir as ir
import pytest

from specc.core.topology import chain
from specc.passes.bake_topology import bake_topology
from specc.passes.invariants import broken_invariants
from specc.passes.set_width import set_width
from tests.models.support import oracle_runner, random_decoder, token_ids


def shapes(model: ir.Model) -> dict[str, list[int | str]]:
    values = (*model.graph.inputs, *model.graph.outputs)
    return {str(v.name): [d if isinstance(d, int) else str(d.value) for d in v.shape or ()] for v in values}


@pytest.mark.parametrize(("width", "rows"), [(1, 1), (5, 5), (8, 1)])
def test_open_sizes_become_numbers_in_a_copy(width: int, rows: int) -> None:
    model = random_decoder()
    before = shapes(model)
    fixed = set_width(model, width, rows)
    expected = {name: [{"S": width, "R": rows}.get(str(d), d) for d in dims] for name, dims in before.items()}
    assert shapes(fixed) == expected
    assert shapes(model) == before
    assert list(broken_invariants(fixed)) == []


def test_a_fixed_graph_takes_a_topology_and_computes_the_same() -> None:
    model, ids = random_decoder(), token_ids(4)
    baked = bake_topology(set_width(model, 4, 4), chain(3))
    np.testing.assert_array_equal(oracle_runner(baked).feed(ids), oracle_runner(model).feed(ids))


def test_a_second_run_changes_nothing() -> None:
    once = set_width(random_decoder(), 4, 2)
    assert ir.to_proto(set_width(once, 9, 9)) == ir.to_proto(once)
