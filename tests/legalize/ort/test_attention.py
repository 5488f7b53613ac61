"""Attention on ONNX Runtime against the oracle, and what it refuses."""

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from specc.core.topology import Topology, chain
from specc.errors import LegalizeError
from specc.legalize.ort import OPS
from specc.legalize.ort.attention import MIN_ROWS
from specc.legalize.rewriting import legalize
from specc.models.decoder import DecoderShape
from specc.passes.bake_topology import bake_topology
from specc.passes.set_width import set_width
from tests.models.support import (
    PAST_PREFIX,
    PRESENT_PREFIX,
    OrtEvaluator,
    Runner,
    legalized,
    oracle_runner,
    ort_runner,
    random_decoder,
    session,
    token_ids,
    zero_caches,
)

WIDTHS = (1, 2, 3, 5, 8)
FAMILIES = [("llama", {}), ("qwen3", {"head_dim": 16}), ("llama", {"head_dim": 24}), ("qwen3", {"head_dim": 8})]


@pytest.mark.parametrize(("family", "fields"), FAMILIES)
@pytest.mark.parametrize("prefix", [0, 1, 11])
@pytest.mark.parametrize("width", WIDTHS)
def test_logits_and_caches_equal_the_oracle(family: str, fields: dict[str, Any], prefix: int, width: int) -> None:
    model = random_decoder(family, **fields)
    prompt, fed = token_ids(prefix, seed=1), token_ids(width, seed=2)
    runners = oracle_runner(model), ort_runner(model)
    logits = []
    for runner in runners:
        if prefix:
            runner.feed(prompt)
        logits.append(runner.feed(fed))
    assert np.abs(logits[0] - logits[1]).max() <= 1e-4
    for name, cache in runners[0].state.items():
        written = slice(0, prefix + width)
        assert np.abs(cache[:, :, written] - runners[1].state[name][:, :, written]).max() <= 1e-4


@pytest.mark.parametrize("width", WIDTHS)
def test_a_static_graph_with_its_chain_baked_in_is_the_same(width: int) -> None:
    model, ids = random_decoder(), token_ids(width)
    static = legalize(bake_topology(set_width(model, width, width), chain(width - 1)), "ort", OPS)
    found = Runner(static, OrtEvaluator(static)).feed(ids)
    assert np.abs(found - oracle_runner(model).feed(ids)).max() <= 1e-4


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cache_bound_in_place_changes_where_tokens_are_written_and_in_one_spare_row(width: int) -> None:
    legal = legalized(random_decoder())
    engine = session(legal)
    binding, caches = engine.io_binding(), {}
    inputs = {"tokens": token_ids(width)[None], "position": np.asarray([20]), "rows": np.asarray([width - 1])}
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, zeros in zero_caches(legal).items():
        caches[name] = ort.OrtValue.ortvalue_from_numpy(np.full_like(zeros, 7.0))
        binding.bind_ortvalue_input(name, caches[name])
        binding.bind_ortvalue_output(name.replace(PAST_PREFIX, PRESENT_PREFIX), caches[name])
    binding.bind_output("logits", "cpu")
    engine.run_with_iobinding(binding)
    for cache in (value.numpy() for value in caches.values()):
        assert (cache[:, :, :20] == 7.0).all()
        assert (cache[:, :, 20 : 20 + width] != 7.0).all()
        assert (cache[:, :, 20 + max(width, MIN_ROWS) :] == 7.0).all()


def test_a_spare_row_needs_room_in_the_cache() -> None:
    """The slack that a backend asks for covers it: the last row is written by the spare token alone."""
    rows = 12
    model = random_decoder(shape=DecoderShape(rows))
    ids = token_ids(rows - 1)
    runner = ort_runner(model)
    found = runner.feed_in((1,) * len(ids), ids)
    assert np.abs(found - oracle_runner(model).feed(ids)).max() <= 1e-4


@pytest.mark.parametrize("topology", [Topology((-1, -1)), Topology((-1, 0, 0))])
def test_a_tree_is_refused(topology: Topology) -> None:
    model = random_decoder(shape=DecoderShape(24, width=topology.width))
    with pytest.raises(LegalizeError, match=r"^ort: GroupQueryAttention serves chains only.*attention_bias"):
        legalize(bake_topology(model, topology), "ort", OPS)


def test_a_topology_that_is_still_an_input_is_refused() -> None:
    with pytest.raises(LegalizeError, match="'block' is not a baked chain"):
        legalize(random_decoder(), "ort", OPS)


def test_a_batch_is_refused() -> None:
    with pytest.raises(LegalizeError, match=r"^ort: GroupQueryAttention takes one sequence at a time.*\[2\]"):
        legalized(random_decoder(shape=DecoderShape(24, batch=2)))


def test_a_head_size_the_op_does_not_take_is_refused() -> None:
    with pytest.raises(LegalizeError, match=r"^ort: GroupQueryAttention takes head sizes.*of 8.*the model's is 12"):
        legalized(random_decoder(head_dim=12))


def test_no_mask_is_computed() -> None:
    op_types = {node.op_type for node in legalized(random_decoder()).graph}
    assert not op_types & {"LessOrEqual", "Less", "And", "Or", "Attention", "TensorScatter"}


def test_layers_share_what_they_need_alike() -> None:
    def bookkeeping(layers: int) -> list[str]:
        nodes = legalized(random_decoder(num_hidden_layers=layers)).graph
        return sorted(n.op_type for n in nodes if n.op_type in ("Shape", "Max", "Range", "Min", "Cast", "Add", "Sub"))

    assert bookkeeping(2) == bookkeeping(4)


def test_state_keeps_its_dtype_through_the_op() -> None:
    legal = legalized(random_decoder(shape=DecoderShape(24, state=ir.DataType.FLOAT16)))
    assert {v.dtype for v in legal.graph.outputs[1:]} == {ir.DataType.FLOAT16}
