"""TensorRT's traps: what its compiler would refuse, do wrong or crash on, found in a graph before it gets there.

Portable programs are built on another machine, so that nothing but this tells their author here. Which ops there may be
at all is the dialect's own list (`legalize/tensorrt`). What was seen of TensorRT-RTX 1.7.1, each rule one trap.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

import onnx_ir as ir

from specc.core.inspection import inputs_of, tensor_of
from specc.errors import BuildError

HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
LARGEST_HEAD, HEAD_MULTIPLE = 256, 16
SCATTER_AXIS, CACHE_AXES = -2, 4
DECOMPOSABLE = "TRT_decomposable"  # TensorRT's own attribute: attention may be built of other kernels

Rule = Callable[[ir.Graph], Iterator[str]]


def check_dialect(name: str, graph: ir.Graph) -> None:
    """Raises BuildError, one line with the first sentence of every rule that `graph` breaks. name: the program's."""
    broken = [sentence for rule in RULES if (sentence := next(rule(graph), None)) is not None]
    if broken:
        raise BuildError(f"tensorrt: {name} can't be built: {'; '.join(broken)}")


def attention_is_fused(graph: ir.Graph) -> Iterator[str]:
    """Caches in 16 bits, head sizes that have a kernel: any other attention is refused, or decomposed and slow."""
    for node in _nodes(graph, "Attention"):
        key = inputs_of(node)[1]
        cache = _cache_behind(key)
        if cache is None or cache.shape is None:
            continue
        if cache.dtype not in HALVES:
            yield f"attention over {cache.dtype} caches has no fused kernel; keep kv in fp16 or bf16"
        size = cache.shape[-1]
        if not isinstance(size, int) or size > LARGEST_HEAD or size % HEAD_MULTIPLE:
            sizes = f"multiples of {HEAD_MULTIPLE} up to {LARGEST_HEAD}"
            yield f"attention has no fused kernel for heads of {size}: give {sizes}"


def attention_takes_a_mask_alone(graph: ir.Graph) -> Iterator[str]:
    """No past and present, no softcap, no other precision of the softmax, no causal mask beside the one given.

    Nor leave to decompose: a build that succeeds then proves that attention is fused.
    """
    for node in _nodes(graph, "Attention"):
        if len(node.inputs) > 4 or len(node.outputs) > 1:
            yield "attention with past and present is refused: caches are written by TensorScatter"
        for attribute in ("softcap", "softmax_precision"):
            if attribute in node.attributes:
                yield f"attention with {attribute} is refused"
        if DECOMPOSABLE in node.attributes:
            yield f"attention with {DECOMPOSABLE} may lose its fused kernel: leave the attribute out"
        if "is_causal" in node.attributes and len(node.inputs) > 3:
            yield "attention with is_causal and a mask is refused"


def caches_are_updated_once_in_place(graph: ir.Graph) -> Iterator[str]:
    """A cache is a graph input of four dimensions that one TensorScatter along axis -2 writes to a graph output."""
    writers: dict[ir.Value, int] = defaultdict(int)
    for node in _nodes(graph, "TensorScatter"):
        cache = inputs_of(node)[0]
        writers[cache] += 1
        if not cache.is_graph_input():
            yield f"'{cache.name}' is updated, but is no input of the program"
        if not node.outputs[0].is_graph_output():
            yield f"the update of '{cache.name}' is no output: updates can't be chained, nor changed"
        if cache.shape is None or len(cache.shape) != CACHE_AXES:
            yield f"'{cache.name}' is updated and has {cache.shape} for a shape: {CACHE_AXES} dimensions are wanted"
        if cache.dtype not in (*HALVES, ir.DataType.FLOAT):
            yield f"'{cache.name}' is a cache of {cache.dtype}: floats only"
        if node.attributes.get_int("axis", SCATTER_AXIS) != SCATTER_AXIS or "mode" in node.attributes:
            yield f"'{cache.name}' is updated along another axis, or around its end: axis {SCATTER_AXIS}, linear only"
    for cache, count in writers.items():
        if count > 1:
            yield f"'{cache.name}' is updated {count} times, once is possible"


def codes_are_signed_and_scales_positive(graph: ir.Graph) -> Iterator[str]:
    """Unsigned codes do not parse; a scale of 0 fails an assertion. A gathered row of codes can't be dequantised."""
    for node in _nodes(graph, "DequantizeLinear"):
        codes, scale, *_ = inputs_of(node)
        if (made := codes.producer()) is not None and made.op_type == "QuantizeLinear":
            continue  # activations in steps
        if codes.dtype == ir.DataType.UINT8:
            yield f"'{codes.name}' holds unsigned codes; shift them to int8"
        if not codes.is_initializer():
            yield f"codes '{codes.name}' are computed: only weights are dequantised"
        if scale.const_value is not None and not (tensor_of(scale).numpy() > 0).all():
            yield f"scale '{scale.name}' holds zeros; give blocks of zeros any positive scale"


def shared_codes_have_one_product_an_input(graph: ir.Graph) -> Iterator[str]:
    """8-bit weights that several steps share and parallel products of one input read crash the compiler."""
    products: dict[ir.Value, list[ir.Value]] = defaultdict(list)
    uses: dict[ir.Value, int] = defaultdict(int)
    for node in _nodes(graph, "MatMul"):
        x, weight = inputs_of(node)
        codes = _codes_behind(weight)
        if codes is not None:
            products[_uncast(x)].append(codes)
            uses[codes] += 1
    for x, codes_read in products.items():
        shared = [codes.name for codes in codes_read if uses[codes] > 1]
        if len(set(codes_read)) > 1 and shared:
            yield f"parallel products of '{x.name}' read 8-bit weights that steps share ({shared[0]}): make them one"


RULES: tuple[Rule, ...] = (
    attention_is_fused,
    attention_takes_a_mask_alone,
    caches_are_updated_once_in_place,
    codes_are_signed_and_scales_positive,
    shared_codes_have_one_product_an_input,
)


def _nodes(graph: ir.Graph, op: str) -> Iterator[ir.Node]:
    return (node for node in graph if (node.domain, node.op_type) == ("", op))


def _cache_behind(key: ir.Value) -> ir.Value | None:
    """The cache that an attention's keys are, or begin with."""
    made = key.producer()
    while made is not None and made.op_type in ("Concat", "Cast", "CastLike", "TensorScatter"):
        key = inputs_of(made)[0]
        made = key.producer()
    return key if key.is_graph_input() else None


def _codes_behind(weight: ir.Value) -> ir.Value | None:
    made = weight.producer()
    while made is not None and made.op_type in ("Transpose", "Cast", "CastLike"):
        made = inputs_of(made)[0].producer()
    return inputs_of(made)[0] if made is not None and made.op_type == "DequantizeLinear" else None


def _uncast(x: ir.Value) -> ir.Value:
    made = x.producer()
    return _uncast(inputs_of(made)[0]) if made is not None and made.op_type in ("Cast", "CastLike") else x
