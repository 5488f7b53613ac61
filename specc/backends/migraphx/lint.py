"""What must never reach MIGraphX: forms it refuses, and those it takes and computes wrong without a word.

Each rule is one trap, found by running MIGraphX 2.16's parser and reference target, or by reading its source. Some name
forms that specc does not emit; they stay, so that no later rule brings them in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import onnx

from specc.errors import LegalizeError
from specc.legalize.migraphx import IN_PLACE_OPS, OPS, OPSET

_EXTERNAL_KEYS = ("location", "offset", "length")
_EIGHT_BITS = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
_RANDOM = frozenset("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split())
_HOST_SYNC = frozenset("If Loop Scan".split())
_CONSTANT_INPUTS: Mapping[str, Sequence[int]] = {
    "CumSum": (1,), "Expand": (1,), "Pad": (1, 2), "ReduceSum": (1,), "Reshape": (1,), "Slice": (1, 2, 3, 4),
    "Split": (1,), "Squeeze": (1,), "TopK": (1,), "Unsqueeze": (1,),
}  # fmt: skip


def check_dialect(proto: onnx.ModelProto) -> None:
    """Raise LegalizeError, once, with every trap that a model to be written for MIGraphX holds."""
    view = _View(proto)
    found = list(dict.fromkeys(chain.from_iterable(rule(view) for rule in _RULES)))
    if found:
        raise LegalizeError(f"migraphx: '{proto.graph.name}' {'; '.join(found)}")


@dataclass(frozen=True)
class _View:
    """A model, and look-ups in it."""

    proto: onnx.ModelProto

    @property
    def nodes(self) -> Sequence[onnx.NodeProto]:
        return tuple(self.proto.graph.node)

    def of(self, *op_types: str) -> Iterator[onnx.NodeProto]:
        return (node for node in self.nodes if node.op_type in op_types)

    @property
    def weights(self) -> Mapping[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in self.proto.graph.initializer}

    @property
    def constants(self) -> frozenset[str]:
        """Values known when the program is built."""
        made = {name for node in self.of("Constant") for name in node.output}
        return frozenset(made | self.weights.keys())

    @property
    def types(self) -> Mapping[str, onnx.TypeProto.Tensor]:
        graph = self.proto.graph
        return {v.name: v.type.tensor_type for v in (*graph.input, *graph.output, *graph.value_info)}

    def dtype(self, name: str) -> int:
        """0 if it is not known."""
        if name in self.weights:
            return int(self.weights[name].data_type)
        return int(self.types[name].elem_type) if name in self.types else 0


def _functions(view: _View) -> Iterator[str]:
    """Model-local functions are refused by the parser."""
    if view.proto.functions:
        yield f"holds functions ({', '.join(f.name for f in view.proto.functions)}): inline them"


def _opset(view: _View) -> Iterator[str]:
    """No opset is refused, but forms newer than the parser's are read as the older ones."""
    for opset in view.proto.opset_import:
        if not opset.domain and opset.version > OPSET:
            yield f"is written in opset {opset.version}: MIGraphX reads {OPSET}"


def _symbolic_sizes(view: _View) -> Iterator[str]:
    """A size that is not a number becomes 1."""
    for name, tensor in view.types.items():
        if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            yield f"has an open size in '{name}', which MIGraphX would take for 1"


def _position(view: _View) -> Iterator[str]:
    """Scalars and other shapes of the position are broadcast into something else."""
    for value in view.proto.graph.input:
        if value.name == "position" and [dim.dim_value for dim in value.type.tensor_type.shape.dim] != [1]:
            yield "takes a position that is not of shape [1]"


def _unknown_ops(view: _View) -> Iterator[str]:
    """Only what was seen to be right. The traps that have a rule of their own are left to it."""
    named = _RANDOM | _HOST_SYNC | {"DequantizeLinear", "DynamicQuantizeLinear", "MatMulNBits", "QuantizeLinear"}
    known = OPS | IN_PLACE_OPS
    strange = {(n.domain, n.op_type) for n in view.nodes if (n.domain, n.op_type) not in known} - {
        (domain, op) for domain in ("", "com.microsoft") for op in named
    }
    if strange:
        yield f"holds ops nobody saw it get right: {', '.join(sorted(f'{d}.{op}'.strip('.') for d, op in strange))}"


def _several_positions(view: _View) -> Iterator[str]:
    """GroupQueryAttention is silently wrong for more than one position after a past."""
    for node in view.of("GroupQueryAttention"):
        query = view.types.get(node.input[0])
        if query is None or query.shape.dim[1].dim_value != 1:
            yield "feeds GroupQueryAttention several positions, which it gets wrong after a past"


def _wide_8_bit_weights(view: _View) -> Iterator[str]:
    """8-bit weights that are widened before they are multiplied are folded to floats: no byte is saved."""
    for node in view.of("DequantizeLinear", "Cast"):
        if node.input[0] in view.weights and view.dtype(node.input[0]) in _EIGHT_BITS:
            yield f"widens the 8-bit weight '{node.input[0]}', which MIGraphX would store as floats"


def _quantised_pairs(view: _View) -> Iterator[str]:
    """QuantizeLinear pairs per channel throw or are folded to floats."""
    for node in view.of("QuantizeLinear", "DequantizeLinear"):
        if node.input[0] not in view.weights:
            yield f"holds {node.op_type}: MIGraphX throws, or computes in floats"


def _dynamic_quantisation(view: _View) -> Iterator[str]:
    """DynamicQuantizeLinear in front of MatMulInteger gives wrong numbers."""
    if any(view.of("DynamicQuantizeLinear")):
        yield "holds DynamicQuantizeLinear, after which MatMulInteger is wrong: round each row to int8 with plain ops"


def _integer_products(view: _View) -> Iterator[str]:
    """MatMulInteger is right on int8 without zero points."""
    for node in view.of("MatMulInteger"):
        if len(node.input) > 2:
            yield "gives MatMulInteger zero points, with which it is wrong"
        if any(view.dtype(name) not in (0, onnx.TensorProto.INT8) for name in node.input[:2]):
            yield "gives MatMulInteger something else than int8"


def _block_quantisation(view: _View) -> Iterator[str]:
    """8-bit MatMulNBits is refused; at 4 bits, separate q, k and v are folded to floats."""
    for node in view.of("MatMulNBits"):
        bits = next((a.i for a in node.attribute if a.name == "bits"), 4)
        yield f"holds a {bits}-bit MatMulNBits: " + (
            "MatMulNBits is refused at 8 bits" if bits == 8 else "no form for it was proven"
        )


def _frozen_randomness(view: _View) -> Iterator[str]:
    """Random ops are evaluated once, when the model is parsed."""
    for name in sorted({node.op_type for node in view.nodes} & _RANDOM):
        yield f"holds {name}, which is frozen when the model is parsed: feed uniforms in"


def _host_synchronisation(view: _View) -> Iterator[str]:
    """Control flow, and sizes that are computed, stop the device to ask the host."""
    for name in sorted({node.op_type for node in view.nodes} & _HOST_SYNC):
        yield f"holds {name}, for which the device waits on the host"
    for node in view.nodes:
        for place in _CONSTANT_INPUTS.get(node.op_type, ()):
            if place < len(node.input) and node.input[place] and node.input[place] not in view.constants:
                yield f"computes input {place} of {node.op_type} '{node.name}': it must be a constant"


def _external_data(view: _View) -> Iterator[str]:
    """Entries are read by their place, whatever their keys say: another order loads other bytes."""
    for tensor in view.weights.values():
        keys = tuple(entry.key for entry in tensor.external_data)
        if keys and keys != _EXTERNAL_KEYS:
            yield f"lists {', '.join(keys)} for '{tensor.name}': MIGraphX reads {', '.join(_EXTERNAL_KEYS)}, by place"


def _outputs(view: _View) -> Iterator[str]:
    """Names are lost: outputs are told apart by their place, and one that nothing computes has no buffer of its own."""
    graph = view.proto.graph
    given = view.constants | {v.name for v in graph.input}
    names = [v.name for v in graph.output]
    for name in names:
        if name in given:
            yield f"passes '{name}' through as an output, for which MIGraphX has no buffer"
    if len(set(names)) < len(names):
        yield "gives one value out twice"


_RULES: tuple[Callable[[_View], Iterator[str]], ...] = (
    _functions, _opset, _symbolic_sizes, _position, _unknown_ops, _several_positions, _wide_8_bit_weights,
    _quantised_pairs, _dynamic_quantisation, _integer_products, _block_quantisation, _frozen_randomness,
    _host_synchronisation, _external_data, _outputs,
)  # fmt: skip
