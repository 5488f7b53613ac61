import numpy as np
import pytest

from specc.core.topology import Topology, chain
from tests.core.support import TREES, ancestors


def test_depths_and_block_of_every_small_tree() -> None:
    for parents in TREES:
        topology = Topology(parents)
        above = [ancestors(parents, row) for row in range(topology.width)]
        assert topology.depths().tolist() == [len(path) for path in above]
        expected = [[j == i or j in above[i] for j in range(topology.width)] for i in range(topology.width)]
        assert topology.block().tolist() == expected


@pytest.mark.parametrize("gamma", range(5))
def test_a_chain(gamma: int) -> None:
    topology = chain(gamma)
    assert topology.width == gamma + 1
    assert topology.is_chain
    np.testing.assert_array_equal(topology.depths(), np.arange(gamma + 1))
    np.testing.assert_array_equal(topology.block(), np.tri(gamma + 1, dtype=bool))


def test_only_chains_are_chains() -> None:
    chains = {chain(size).parents for size in range(6)}
    assert all(Topology(parents).is_chain == (parents in chains) for parents in TREES)


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-2,), (-1, -1, 2)])
def test_a_parent_comes_before_its_child(parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each must be -1 or an earlier node"):
        Topology(parents)
