"""Attention in MIGraphX's dialect: the oracle's numbers, and the shape of graph that its compiler fuses."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.backends.migraphx.lint import check_dialect
from specc.backends.migraphx.lowering import lower
from specc.core.building import Body, model, value
from specc.core.functions.attention import attention
from specc.core.oracle import Oracle
from specc.core.topology import Topology
from specc.errors import LegalizeError
from specc.models.decoder import DecoderShape
from tests.core.support import floats
from tests.legalize.migraphx.support import lowered, static
from tests.models.support import OrtEvaluator, Runner, oracle_runner, random_decoder, token_ids

ROWS = 48
FAMILIES = [
    ("llama", {}),
    ("llama", {"num_key_value_heads": 4, "head_dim": 6}),
    ("qwen2", {"num_key_value_heads": 1}),
    ("qwen3", {"head_dim": 8}),
]


@pytest.mark.parametrize(("family", "fields"), FAMILIES)
@pytest.mark.parametrize("prefix", [0, 11])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_logits_and_caches_equal_the_oracle(family: str, fields: dict[str, Any], prefix: int, width: int) -> None:
    decoder = random_decoder(family, DecoderShape(ROWS), **fields)
    expected, found = oracle_runner(decoder), Runner(decoder, Oracle(decoder))
    if prefix:
        expected.feed(token_ids(prefix, seed=1))
        found.feed(token_ids(prefix, seed=1))
    graph = lowered(decoder, width)
    fed = Runner(graph, OrtEvaluator(graph))
    fed.state, fed.position = found.state, found.position
    ids = token_ids(width, seed=2)
    assert np.abs(expected.feed(ids) - fed.feed(ids)).max() <= 1e-4
    for name, cache in expected.state.items():
        assert np.abs(cache - fed.state[name]).max() <= 1e-4


@pytest.mark.parametrize("topology", [Topology((-1, -1)), Topology((-1, 0, 0, 1, -1))])
def test_a_tree_keeps_its_mask(topology: Topology) -> None:
    decoder = random_decoder("llama", DecoderShape(ROWS))
    graph = lowered(decoder, topology.width, topology)
    expected, found = oracle_runner(decoder), Runner(graph, OrtEvaluator(graph))
    for seed in range(2):
        ids = token_ids(topology.width, seed)
        assert np.abs(expected.feed(ids, topology) - found.feed(ids)).max() <= 1e-4


def test_a_batch_is_refused() -> None:
    with pytest.raises(LegalizeError, match=r"one sequence at a time, and the batch is \[2\]"):
        lowered(random_decoder("llama", DecoderShape(ROWS, batch=2)), 1)


def between(node: ir.Node) -> tuple[list[str], ir.Node]:
    """Op types on the way up from a product's first input to the product before it."""
    passed: list[str] = []
    while node.op_type != "MatMul":
        passed.append(node.op_type)
        data = node.inputs[1] if node.op_type == "Where" else node.inputs[0]
        assert data is not None
        producer = data.producer()
        assert producer is not None
        node = producer
    return passed, node


@pytest.mark.parametrize("state", [ir.DataType.FLOAT, ir.DataType.FLOAT16])
@pytest.mark.parametrize("width", [1, 5])
def test_each_layer_is_one_softmax_between_two_products_and_no_concat_there(width: int, state: ir.DataType) -> None:
    graph = lowered(random_decoder("llama", DecoderShape(ROWS, state=state), num_hidden_layers=3), width).graph
    softmaxes = [node for node in graph if node.op_type == "Softmax"]
    assert len(softmaxes) == 3
    casts = [] if state == ir.DataType.FLOAT else ["Cast"]
    for softmax in softmaxes:
        passed, first = between(softmax)
        assert passed == ["Softmax", "Where", "Mul", *casts]
        (read,) = softmax.outputs[0].uses()
        second = read.node if not casts else next(iter(read.node.outputs[0].uses())).node
        assert second.op_type == "MatMul"
        assert first.inputs[0].shape is None or len(first.inputs[0].shape) == 4


def test_layers_share_the_mask_the_rotations_and_the_places_they_write_to() -> None:
    def count(layers: int, *op_types: str) -> int:
        graph = lowered(random_decoder("llama", num_hidden_layers=layers), 3).graph
        return sum(node.op_type in op_types for node in graph)

    for shared in (["LessOrEqual"], ["Expand"], ["Unsqueeze"], ["Gather"]):
        assert count(2, *shared) == count(4, *shared)
    assert count(4, "ScatterND") == 8


def test_every_product_with_a_weight_is_one_a_packed_matrix() -> None:
    """q, k and v in one, gate and up in one: four weights a layer, and the head."""
    graph = lowered(random_decoder("llama", num_hidden_layers=2), 3).graph
    weights = [
        str(turned.inputs[0].name)
        for node in graph
        if node.op_type == "MatMul" and (turned := node.inputs[1].producer()) and turned.inputs[0].is_initializer()
    ]
    layers = [f"verifier.layers.{i}.{name}" for i in range(2) for name in ("qkv", "output", "gate_up", "down")]
    assert weights == [*layers, "verifier.head"]


HEADS, KV_HEADS, HEAD_DIM, WIDTH, PAST = 4, 2, 16, 5, 9


def attention_graph(dtype: ir.DataType) -> ir.Model:
    """One call of the core function, caches of `dtype`."""
    f32, i64 = ir.DataType.FLOAT, ir.DataType.INT64
    cache = [1, KV_HEADS, 24, HEAD_DIM]
    inputs = [
        value("qkv", [1, WIDTH, (HEADS + 2 * KV_HEADS) * HEAD_DIM], f32),
        value("past_key", cache, dtype),
        value("past_value", cache, dtype),
        value("position", [1], i64),
        value("position_ids", [1, WIDTH], i64),
        value("mask", [1, 1, WIDTH, 24], ir.DataType.BOOL),
        value("cos", [24, HEAD_DIM // 2], f32),
        value("sin", [24, HEAD_DIM // 2], f32),
    ]
    body = Body()
    sizes = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM}
    outputs = body.call(attention(), *inputs, **sizes, scale=HEAD_DIM**-0.5)
    for output, name, shape, kind in zip(
        outputs,
        ("y", "key", "value"),
        ([1, WIDTH, HEADS * HEAD_DIM], cache, cache),
        (f32, dtype, dtype),
        strict=True,
    ):
        output.name, output.shape, output.dtype = name, ir.Shape(shape), kind
    return model("attention", inputs, outputs, body, functions=[attention()])


def rounded_attention(fed: dict[str, NDArray[Any]], exact_key: NDArray[Any], exact_value: NDArray[Any]) -> NDArray[Any]:
    """y in numpy, what enters and leaves a product rounded to 16 bits, the softmax in fp32; q is rotated already."""
    half, group = np.float16, HEADS // KV_HEADS
    q = fed["q"].astype(half).astype(np.float32).reshape(KV_HEADS, group, WIDTH, HEAD_DIM)
    key, cached = (a.astype(half).astype(np.float32)[0, :, None] for a in (exact_key, exact_value))
    scores = (q @ key.swapaxes(-1, -2)).astype(half).astype(np.float32) * np.float32(HEAD_DIM**-0.5)
    scores = np.where(fed["mask"][0, 0], scores, np.finfo(np.float32).min)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = (shares / shares.sum(axis=-1, keepdims=True)).astype(half).astype(np.float32)
    mixed = (shares @ cached).astype(half).astype(np.float32)
    return mixed.reshape(HEADS, WIDTH, HEAD_DIM).transpose(1, 0, 2).reshape(1, WIDTH, -1)


@pytest.mark.parametrize("seed", range(3))
def test_16_bit_attention_is_as_good_as_numpys_with_16_bit_rounding(seed: int) -> None:
    cache = (1, KV_HEADS, 24, HEAD_DIM)
    angles = np.outer(np.arange(24), 10000.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2)))
    fed: dict[str, NDArray[Any]] = {
        "qkv": floats(1, WIDTH, (HEADS + 2 * KV_HEADS) * HEAD_DIM, seed=seed),
        "past_key": floats(*cache, seed=seed + 10).astype(np.float16),
        "past_value": floats(*cache, seed=seed + 20).astype(np.float16),
        "position": np.asarray([PAST]),
        "position_ids": PAST + np.arange(WIDTH)[None],
        "mask": (np.arange(24) <= PAST + np.arange(WIDTH)[:, None])[None, None],
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }
    wide = fed | {name: fed[name].astype(np.float32) for name in ("past_key", "past_value")}
    exact = Oracle(attention_graph(ir.DataType.FLOAT)).run(wide)
    found = OrtEvaluator(lower(attention_graph(ir.DataType.FLOAT16))).run(fed)
    first, second = np.split(fed["qkv"].reshape(WIDTH, -1, HEAD_DIM)[:, :HEADS].swapaxes(0, 1), 2, axis=-1)
    cos, sin = (fed[name][fed["position_ids"][0]] for name in ("cos", "sin"))
    q = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    rounded = rounded_attention(fed | {"q": q}, exact["key"], exact["value"])
    inherent = np.abs(rounded - exact["y"]).max()
    assert 0 < np.abs(found["y"] - exact["y"]).max() <= 2 * inherent
    for name in ("key", "value"):
        np.testing.assert_allclose(found[name].astype(np.float32), exact[name], rtol=2**-10, atol=2**-14)


@pytest.mark.parametrize(("family", "fields"), [("llama", {}), ("qwen3", {"head_dim": 16})])
@pytest.mark.parametrize("width", [1, 3])
def test_caches_written_in_place_row_by_row_equal_the_oracle(family: str, fields: dict[str, Any], width: int) -> None:
    decoder = random_decoder(family, DecoderShape(ROWS), **fields)
    graph = lower(static(decoder, width), in_place=True)
    op_types = [node.op_type for node in graph.graph]
    assert op_types.count("GroupQueryAttention") == 2 * width
    assert not {"ScatterND", "Softmax", "Where"} & set(op_types)
    check_dialect(ir.to_proto(graph))
    expected, found = oracle_runner(decoder), Runner(graph, OrtEvaluator(graph))
    for seed in range(2):
        ids = token_ids(width, seed)
        assert np.abs(expected.feed(ids) - found.feed(ids)).max() <= 1e-4
    for name, cache in expected.state.items():
        assert np.abs(cache - found.state[name]).max() <= 1e-4


def test_each_row_in_place_writes_over_the_caches_that_the_one_before_it_left() -> None:
    graph = lower(static(random_decoder("llama", DecoderShape(ROWS), num_hidden_layers=1), 3), in_place=True).graph
    first, second, third = (node for node in graph if node.op_type == "GroupQueryAttention")
    assert [v.name for v in first.inputs[3:5]] == ["past.0.key", "past.0.value"]
    assert second.inputs[3:5] == first.outputs[1:3]
    assert third.inputs[3:5] == second.outputs[1:3]
    assert [v.name for v in third.outputs[1:3]] == ["present.0.key", "present.0.value"]


def test_a_tree_in_place_is_refused() -> None:
    tree = Topology((-1, -1))
    with pytest.raises(LegalizeError, match="written in place serve chains only; leave in_place_caches out"):
        lower(static(random_decoder("llama", DecoderShape(ROWS)), tree.width, tree), in_place=True)
