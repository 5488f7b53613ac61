"""Tiny decoders: random transformers models, their weights as specc takes them, and runners that keep the caches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM

from specc.checkpoint.types import Weights
from specc.core.oracle import Oracle
from specc.core.topology import Topology, chain
from specc.legalize.ort import OPS
from specc.legalize.rewriting import legalize
from specc.models.decoder import DecoderShape, build_decoder
from specc.models.families import describe
from specc.models.layer import layer_weights
from specc.models.spec import DecoderSpec
from specc.passes.bake_topology import bake_topology

VOCAB = 61
SIZES: Mapping[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
}
PAST_PREFIX, PRESENT_PREFIX = "past.", "present."

Array = NDArray[Any]


@dataclass(frozen=True)
class ArrayTensor:
    """A weight that is an array already."""

    name: str
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def numpy(self) -> Array:
        return self.array


def weights_from(arrays: Mapping[str, Array]) -> Weights:
    """Arrays by Hugging Face name, as a checkpoint's weights."""
    return Weights({name: ArrayTensor(name, array) for name, array in arrays.items()})


def tiny_config(model_type: str, **fields: Any) -> dict[str, Any]:
    """A config.json of a few thousand weights; `fields` override it, and those given as None are left out."""
    config = {"model_type": model_type, **SIZES, **fields}
    return {name: value for name, value in config.items() if value is not None}


def reference_model(config: Mapping[str, Any], seed: int = 0) -> Any:
    """transformers' model of `config` in fp32, its weights wide enough (std 0.3) that a misplaced one shows."""
    fields = {name: value for name, value in config.items() if name != "model_type"}
    parsed = AutoConfig.for_model(config["model_type"], **fields)
    model = AutoModelForCausalLM.from_config(parsed, attn_implementation="eager", dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name else 0.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3 + centre)
    return model


def reference_weights(model: Any) -> Weights:
    """The weights of a transformers model."""
    return weights_from({name: tensor.detach().numpy() for name, tensor in model.state_dict().items()})


def random_weights(spec: DecoderSpec, seed: int = 0) -> Weights:
    """Weights for `spec`, drawn without torch: std 0.3, norms around 1."""
    names = spec.names
    shapes = {names.embedding: (spec.vocab_rows, spec.hidden), names.final_norm: (spec.hidden,)}
    if not spec.tied_head:
        shapes[names.head] = (spec.vocab_rows, spec.hidden)
    for layer in range(spec.layers):
        shapes |= dict(source for weight in layer_weights(spec, layer) for source in weight.sources)
    rng = np.random.default_rng(seed)
    return weights_from(
        {
            name: (rng.standard_normal(shape) * 0.3 + ("norm" in name)).astype(np.float32)
            for name, shape in shapes.items()
        }
    )


def random_decoder(
    model_type: str = "llama", shape: DecoderShape | None = None, seed: int = 0, **fields: Any
) -> ir.Model:
    """The core graph of a tiny decoder with random weights, with caches of 48 rows unless `shape` says otherwise."""
    spec = describe(tiny_config(model_type, **fields), "tiny")
    return build_decoder(spec, random_weights(spec, seed), "tiny", "verifier", shape or DecoderShape(48))


def legalized(model: ir.Model) -> ir.Model:
    """`model` as an open chain in ONNX Runtime's ops; `model` stays as it is."""
    return legalize(bake_topology(model.clone(), None), "ort", OPS)


def session(model: ir.Model, *, optimize: bool = True) -> ort.InferenceSession:
    """A legalised model on ONNX Runtime's CPU, one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


class Evaluator(Protocol):
    """Runs a graph: outputs by name."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]: ...


class OrtEvaluator:
    """A legalised model run by ONNX Runtime."""

    def __init__(self, model: ir.Model, *, optimize: bool = True) -> None:
        self._session = session(model, optimize=optimize)
        self._names = [output.name for output in self._session.get_outputs()]
        self._inputs = {value.name for value in self._session.get_inputs()}

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        fed = {name: array for name, array in inputs.items() if name in self._inputs}
        return dict(zip(self._names, self._session.run(self._names, fed), strict=True))


class Runner:
    """Feeds tokens to a decoder of batch 1 and keeps its caches and its position."""

    def __init__(self, model: ir.Model, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._open = {v.name for v in model.graph.inputs} >= {"depths", "block"}
        self.state = zero_caches(model)
        self.position = 0

    def feed(self, ids: Array, topology: Topology | None = None) -> Array:
        """Logits f32[S, V] of every token of `ids`, written at the position, which moves behind them."""
        count = len(ids)
        inputs = {"tokens": ids[None], "position": np.asarray([self.position]), "rows": np.arange(count), **self.state}
        if self._open:
            topology = topology or chain(count - 1)
            inputs |= {"depths": topology.depths(), "block": topology.block()}
        outputs = self._evaluator.run(inputs)
        self.state = {name: outputs[name.replace(PAST_PREFIX, PRESENT_PREFIX)] for name in self.state}
        self.position += count
        return outputs["logits"][0]

    def feed_in(self, widths: Sequence[int], ids: Array) -> Array:
        """Logits of every token, fed in calls of these widths."""
        assert sum(widths) == len(ids)
        return np.concatenate([self.feed(part) for part in split(ids, widths)])


def split(ids: Array, widths: Sequence[int]) -> Iterator[Array]:
    """Consecutive pieces of `ids`."""
    yield from np.split(ids, np.cumsum(widths)[:-1])


def zero_caches(model: ir.Model) -> dict[str, Array]:
    """A zeroed array for each cache input."""
    return {
        str(v.name): np.zeros([int(d) for d in v.shape or ()], v.dtype.numpy() if v.dtype else None)
        for v in model.graph.inputs
        if str(v.name).startswith(PAST_PREFIX)
    }


def oracle_runner(model: ir.Model) -> Runner:
    """`model`, a core graph, run by the oracle."""
    return Runner(model, Oracle(model))


def ort_runner(model: ir.Model) -> Runner:
    """`model`, a core graph, legalised as an open chain and run by ONNX Runtime."""
    lowered = legalized(model)
    return Runner(lowered, OrtEvaluator(lowered))


def token_ids(count: int, seed: int = 0, vocab: int = VOCAB) -> Array:
    """Random tokens."""
    return np.random.default_rng(seed).integers(0, vocab, count)
