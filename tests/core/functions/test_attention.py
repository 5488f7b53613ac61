"""Cached attention against plain numpy: every small tree, any place in the cache, grouped heads, several sequences."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specc.core.functions.attention import attention, attention_qk_norm, visibility
from specc.core.topology import Topology, chain
from specc.models.spec import RopeSpec
from tests.core.support import TREES, ancestors, floats, run_function

Array = NDArray[Any]
HEADS, KV_HEADS, HEAD_DIM, CACHE_ROWS = 4, 2, 8, 20
ROPE = RopeSpec(tuple(0.5 ** np.arange(HEAD_DIM // 2)), magnitude=1.2)
SHAPE = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "scale": 0.4}


def rotated(x: Array, position: int) -> Array:
    """Rotate-half rotary embedding of `[..., HEAD_DIM]` at one position, in float64."""
    angles = position * np.asarray(ROPE.inv_freq)
    cos, sin = np.cos(angles) * ROPE.magnitude, np.sin(angles) * ROPE.magnitude
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def normed(x: Array, weight: Array, epsilon: float) -> Array:
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * weight


def one_token(q: Array, keys: Array, values: Array) -> Array:
    """Attention of one token, q `[HEADS, HEAD_DIM]`, over visible keys and values `[n, KV_HEADS, HEAD_DIM]`."""
    mixed = []
    for head in range(HEADS):
        group = head // (HEADS // KV_HEADS)
        scores = keys[:, group] @ q[head] * SHAPE["scale"]
        weights = np.exp(scores - scores.max())
        mixed.append(weights / weights.sum() @ values[:, group])
    return np.concatenate(mixed)


class Sequence:
    """One sequence: its cache before the call, the packed tokens fed at `position`, and what must come out."""

    def __init__(self, position: int, width: int, seed: int) -> None:
        self.position, self.width = position, width
        self.qkv = floats(width, (HEADS + 2 * KV_HEADS) * HEAD_DIM, seed=seed)
        self.past_key, self.past_value = (
            floats(KV_HEADS, CACHE_ROWS, HEAD_DIM, seed=seed + offset) for offset in (100, 200)
        )

    def expected(self, topology: Topology, norms: tuple[Array, Array, float] | None = None) -> dict[str, Array]:
        q, k, v = np.split(self.qkv.reshape(self.width, -1, HEAD_DIM), [HEADS, HEADS + KV_HEADS], axis=1)
        if norms is not None:
            q, k = normed(q, norms[0], norms[2]), normed(k, norms[1], norms[2])
        depths = [len(ancestors(topology.parents, row)) for row in range(self.width)]
        q, k = (np.stack([rotated(x[row], self.position + d) for row, d in enumerate(depths)]) for x in (q, k))
        key, value = self.past_key.astype(np.float64), self.past_value.astype(np.float64)
        key[:, self.position : self.position + self.width] = k.transpose(1, 0, 2)
        value[:, self.position : self.position + self.width] = v.transpose(1, 0, 2)
        y = []
        for row in range(self.width):
            drafted = [self.position + r for r in sorted([row, *ancestors(topology.parents, row)])]
            visible = [*range(self.position), *drafted]
            y.append(one_token(q[row], key[:, visible].transpose(1, 0, 2), value[:, visible].transpose(1, 0, 2)))
        return {"y": np.stack(y), "key": key, "value": value}


def run(sequences: list[Sequence], topology: Topology, norms: tuple[Array, Array, float] | None = None) -> Any:
    position = np.asarray([s.position for s in sequences])
    past_key = np.stack([s.past_key for s in sequences])
    visible = run_function(visibility(), {"position": position, "block": topology.block(), "cache": past_key})
    cos, sin = ROPE.tables(CACHE_ROWS)
    inputs = {
        "qkv": np.stack([s.qkv for s in sequences]),
        "past_key": past_key,
        "past_value": np.stack([s.past_value for s in sequences]),
        "position": position,
        "position_ids": position[:, None] + topology.depths(),
        "mask": visible["mask"],
        "cos": cos,
        "sin": sin,
    }
    if norms is None:
        return run_function(attention(), inputs, **SHAPE)
    inputs |= {"query_norm": norms[0], "key_norm": norms[1]}
    return run_function(attention_qk_norm(), inputs, **SHAPE, epsilon=norms[2])


def assert_equal(found: dict[str, Array], sequences: list[Sequence], expected: list[dict[str, Array]]) -> None:
    for row in range(len(sequences)):
        for name, array in expected[row].items():
            assert np.abs(found[name][row] - array).max() <= 1e-5, (name, row)


@pytest.mark.parametrize("position", [0, 1, 7, CACHE_ROWS - 5])
def test_every_small_tree_sees_its_prefix_and_its_ancestors(position: int) -> None:
    for parents in (p for p in TREES if len(p) == 4):
        topology = Topology(parents)
        sequence = Sequence(position, topology.width, seed=position)
        assert_equal(run([sequence], topology), [sequence], [sequence.expected(topology)])


@pytest.mark.parametrize("width", [1, 2, 3, 9])
def test_a_chain_of_any_width(width: int) -> None:
    topology = chain(width - 1)
    sequence = Sequence(4, width, seed=width)
    assert_equal(run([sequence], topology), [sequence], [sequence.expected(topology)])


def test_sequences_of_a_batch_stand_at_positions_of_their_own() -> None:
    topology = Topology((-1, 0, -1))
    sequences = [Sequence(position, topology.width, seed=position) for position in (0, 3, 16)]
    assert_equal(run(sequences, topology), sequences, [s.expected(topology) for s in sequences])


def test_heads_are_normed_before_they_are_rotated() -> None:
    topology = Topology((-1, 0, 0))
    norms = (1 + floats(HEAD_DIM, seed=8), 1 + floats(HEAD_DIM, seed=9), 0.01)
    sequences = [Sequence(position, topology.width, seed=position) for position in (2, 5)]
    assert_equal(run(sequences, topology, norms), sequences, [s.expected(topology, norms) for s in sequences])


def test_rows_beyond_what_was_written_are_never_seen() -> None:
    topology = chain(2)
    sequence = Sequence(5, 3, seed=1)
    clean = run([sequence], topology)
    sequence.past_key[:, 8:] = 1e4
    sequence.past_value[:, 8:] = 1e4
    np.testing.assert_array_equal(run([sequence], topology)["y"], clean["y"])


@pytest.mark.parametrize("position", [0, 3, 9])
def test_the_mask_is_the_prefix_and_the_block(position: int) -> None:
    for parents in (p for p in TREES if len(p) == 3):
        topology = Topology(parents)
        inputs = {
            "position": np.asarray([position, 2]),
            "block": topology.block(),
            "cache": np.zeros((2, 1, 13, 4), np.float32),
        }
        mask = run_function(visibility(), inputs)["mask"]
        assert mask.shape == (2, 1, 4, 13)
        for sequence, start in enumerate((position, 2)):
            expected = np.zeros((4, 13), bool)
            expected[:, :start] = True
            expected[:, start : start + 4] = topology.block()
            np.testing.assert_array_equal(mask[sequence, 0], expected)
