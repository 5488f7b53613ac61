"""One update per cache: what several steps of a graph write is kept in a tail until the last of them."""

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as ir_passes
from numpy.typing import NDArray

from specc.core.building import Body
from specc.core.functions.attention import VISIBILITY
from specc.core.inspection import inputs_of, static_shape
from specc.passes.update_chains import SCATTER, chains, hand_on, holds_features, inline_writers

_CAST_LIKE = "CastLike"
_MASK = 3  # input of Attention


def concat_tail(model: ir.Model) -> ir.Model:
    """`TensorScatter` after `TensorScatter` on one cache becomes one, of all their rows, after the last step.

    A step's attention then reads `Concat(cache, rows of the steps so far)`, and its mask shows of the cache the rows
    before the first step's position, of the tail the earlier steps' rows and its own block. For backends that update a
    cache once a program, in place. The caches between steps are no longer outputs. What writes caches is inlined.
    Features are predicted by one step for the next, which is handed them, and written by the verifier alone.
    Must hold: the steps' rows follow one another, topologies are baked, and the verifier writes every feature row that
    was predicted. Raises ValueError: a cache is read by something else between its updates.
    """
    inline_writers(model)
    graph, masks = model.graph, _TailMasks()
    for chain in list(chains(graph)):
        if len(chain) < 2:
            continue
        if holds_features(chain):
            hand_on(graph, chain)
        else:
            _join(graph, chain, masks)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    return model


def _join(graph: ir.Graph, chain: list[ir.Node], masks: "_TailMasks") -> None:
    cache, _, position = inputs_of(chain[0])
    rows, readers = [], []
    body = Body()
    for node in chain:
        rows.append(inputs_of(node)[1])
        seen = body.op("Concat", cache, *rows, axis=-2)
        readers.append(_redirect(node.outputs[0], cache, seen))
    masks.show_tail(body, readers, cache, position)
    for node in chain[:-1]:
        if node.outputs[0].is_graph_output():
            graph.outputs.remove(node.outputs[0])
    last = chain[-1].outputs[0]
    joined = body.op(SCATTER, cache, body.op("Concat", *rows, axis=-2), position, axis=-2)
    joined.shape, joined.type = cache.shape, cache.type
    name, last.name = last.name, None
    last.replace_all_uses_with(joined, replace_graph_outputs=True)
    joined.name = name
    graph.extend(body.nodes)


def _redirect(written: ir.Value, cache: ir.Value, seen: ir.Value) -> ir.Node:
    """Let readers of `written` read `seen`, or `cache` if they want its dtype or size; the attention among them."""
    reader = None
    for use in list(written.uses()):
        node, index = use.node, use.idx
        if node.op_type == SCATTER and index == 0:
            continue
        if (node.op_type, index) in ((_CAST_LIKE, 1), (VISIBILITY, 2)):
            node.replace_input_with(index, cache)
            continue
        node.replace_input_with(index, seen)
        reader = next(iter(node.outputs[0].uses())).node if node.op_type == _CAST_LIKE else node
        if reader.op_type != "Attention":
            raise ValueError(f"cache '{cache.name}' is read by {reader.op_type} between its updates, not by attention")
    if reader is None:
        raise ValueError(f"cache '{cache.name}' is written by a step that does not read it")
    return reader


class _TailMasks:
    """The masks of steps over a cache and its tail, made once for all caches."""

    def __init__(self) -> None:
        self._calls: dict[ir.Node, ir.Node] = {}  # attention -> the visibility call that made its mask
        self._made: dict[ir.Node, ir.Value] = {}  # visibility call -> mask over cache and tail

    def show_tail(self, body: Body, readers: list[ir.Node], cache: ir.Value, position: ir.Value) -> None:
        """Give each step's attention its mask. position: cache row of the first step's first row."""
        earlier = 0
        for reader in readers:
            call = self._calls.setdefault(reader, _visibility_call(reader))
            block = _constant(inputs_of(call)[1])
            if call not in self._made:
                self._made[call] = _tail_mask(body, block, earlier, cache, position)
            reader.replace_input_with(_MASK, self._made[call])
            earlier += len(block)


def _visibility_call(reader: ir.Node) -> ir.Node:
    """The call that made an attention's mask; the node that joins mask and tail if it was replaced already."""
    made = inputs_of(reader)[_MASK].producer()
    if made is None or made.op_type not in (VISIBILITY, "Concat"):
        raise ValueError(f"the mask of '{reader.name}' does not come from {VISIBILITY}")
    return made


def _tail_mask(body: Body, block: NDArray[np.bool_], earlier: int, cache: ir.Value, position: ir.Value) -> ir.Value:
    """bool[B, 1, S, C + T]: cache rows before `position`; `earlier` rows of the tail, and of the S own ones `block`."""
    batch, _, length, _ = static_shape(cache)
    columns = body.constant(np.arange(length)[None])
    before = body.op("Less", columns, body.op("Unsqueeze", position, body.constant([1])))
    rows = body.constant([batch, 1, len(block), length])
    prefix = body.op("Expand", body.op("Unsqueeze", before, body.constant([1, 2])), rows)
    tail = np.hstack([np.ones((len(block), earlier), np.bool_), block])
    shown = body.constant(np.broadcast_to(tail, (batch, 1, *tail.shape)), np.bool_)
    return body.op("Concat", prefix, shown, axis=-1)


def _constant(value: ir.Value) -> NDArray[np.bool_]:
    """The values of a baked topology's block."""
    node = value.producer()
    tensor = None if node is None or node.op_type != "Constant" else node.attributes["value"].as_tensor()
    if tensor is None:
        raise ValueError(f"the block '{value.name}' is not baked")
    return np.asarray(tensor.numpy(), np.bool_)
