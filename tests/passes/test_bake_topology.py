import numpy as np
import onnx_ir as ir
import pytest

from specc.core.topology import CHAIN, TOPOLOGY, TREE, Topology, chain
from specc.models.decoder import DecoderShape
from specc.passes.bake_topology import bake_topology
from specc.passes.invariants import broken_invariants
from tests.models.support import oracle_runner, random_decoder, token_ids

TOPOLOGIES = [Topology((-1, 0, 0)), Topology((-1, -1, 1)), chain(3)]


def block_of(model: ir.Model) -> ir.Value:
    """The visibility block that the baked graph's mask is made of."""
    block = next(node for node in model.graph if node.op_type == "visibility").inputs[1]
    assert block is not None
    return block


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_baked_topology_is_the_one_that_was_fed(topology: Topology) -> None:
    model = random_decoder(shape=DecoderShape(24, width=4))
    prompt, fed = token_ids(4, seed=1), token_ids(4, seed=2)
    open_runner = oracle_runner(model)
    open_runner.feed(prompt)
    baked_runner = oracle_runner(bake_topology(model.clone(), topology))
    baked_runner.state, baked_runner.position = open_runner.state, 4
    np.testing.assert_array_equal(baked_runner.feed(fed), open_runner.feed(fed, topology))


@pytest.mark.parametrize("width", [1, 2, 5])
def test_an_open_chain_has_the_width_that_is_fed(width: int) -> None:
    model = random_decoder()
    fed = token_ids(width)
    found = oracle_runner(bake_topology(model.clone(), None)).feed(fed)
    np.testing.assert_array_equal(found, oracle_runner(model).feed(fed))


@pytest.mark.parametrize("topology", [None, *TOPOLOGIES])
def test_inputs_go_and_the_kind_is_marked(topology: Topology | None) -> None:
    model = bake_topology(random_decoder(shape=DecoderShape(24, width=4)), topology)
    assert [v.name for v in model.graph.inputs][:4] == ["tokens", "position", "rows", "past.0.key"]
    expected = CHAIN if topology is None or topology.is_chain else TREE
    assert block_of(model).metadata_props[TOPOLOGY] == expected
    assert block_of(model.clone()).metadata_props[TOPOLOGY] == expected
    assert list(broken_invariants(model)) == []


def test_a_model_without_layers_needs_no_mask() -> None:
    model = random_decoder(num_hidden_layers=0)
    ids = token_ids(3)
    found = oracle_runner(bake_topology(model.clone(), None)).feed(ids)
    np.testing.assert_array_equal(found, oracle_runner(model).feed(ids))


@pytest.mark.parametrize("width", [3, "S"])
def test_a_topology_of_another_width_is_refused(width: int | str) -> None:
    with pytest.raises(ValueError, match=f"topology of 4 rows for a graph fed {width} tokens"):
        bake_topology(random_decoder(shape=DecoderShape(24, width=width)), chain(3))
