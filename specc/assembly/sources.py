"""Opening the models of a compile: checkpoint, decoder spec, vocabulary."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from specc.assembly.tied_head import check_head
from specc.assembly.vocabulary import Vocabulary, read_vocabulary
from specc.checkpoint import open_checkpoint
from specc.checkpoint.types import Checkpoint, Weights
from specc.errors import OptionError
from specc.models.families import describe
from specc.models.spec import DecoderSpec, WeightNames
from specc_runtime.manifest import ModelInfo

_DTYPE_NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class ModelSource:
    """One model as it was opened.

    weights_of: the role that owns the weights, if another model's ("verifier" for a slice).
    """

    checkpoint: Checkpoint
    spec: DecoderSpec
    vocabulary: Vocabulary
    weights_of: str | None = None

    @property
    def dtype(self) -> str:
        """What most of the weights are stored in: "fp32", "fp16" or "bf16"."""
        counts: Counter[str] = Counter()
        for tensor in self.checkpoint.weights.values():
            counts[tensor.dtype.name] += prod(tensor.shape)
        return _DTYPE_NAMES.get(counts.most_common(1)[0][0], "fp32") if counts else "fp32"

    @property
    def parameters(self) -> int:
        """Weights the decoder reads; a tied head counts once."""
        return count_parameters(self.spec)

    def info(self, context: int) -> ModelInfo:
        """The manifest's record."""
        return ModelInfo(
            name=self.checkpoint.source,
            model_type=self.spec.model_type,
            layers=self.spec.layers,
            hidden_size=self.spec.hidden,
            vocab_rows=self.spec.vocab_rows,
            context=context,
            parameters=self.parameters,
        )


def open_model(name: str, ignore: Collection[str]) -> ModelSource:
    """Open a checkpoint and read what its config.json means.

    The vocabulary's size is the embedding's, whatever config.json or the tokenizer say.
    Raises CheckpointError, UnsupportedError, or VocabularyError (ids without a row).
    """
    checkpoint = open_checkpoint(name)
    spec = describe(checkpoint.config, checkpoint.path, ignore)
    check_head(checkpoint, spec)
    rows = embedding_rows(checkpoint.weights, spec.names, spec.vocab_rows)
    spec = replace(spec, vocab_rows=rows)
    return ModelSource(checkpoint, spec, read_vocabulary(checkpoint, rows))


def slice_of(verifier: ModelSource, layers: int) -> ModelSource:
    """The verifier's first `layers` layers under its own norm and head, as a drafter.

    Raises OptionError unless it has more layers than that.
    """
    if layers >= verifier.spec.layers:
        raise OptionError(
            f"draft: slice:{layers} of a verifier with {verifier.spec.layers} layers; give fewer than it has"
        )
    return replace(verifier, spec=replace(verifier.spec, layers=layers), weights_of="verifier")


def count_parameters(spec: DecoderSpec) -> int:
    """Numbers in the decoder's weight matrices and norms."""
    a, hidden = spec.attention, spec.hidden
    attention = a.qkv_rows * hidden + a.heads * a.head_dim * hidden + (a.qkv_rows if a.qkv_bias else 0)
    attention += (hidden if a.output_bias else 0) + (2 * a.head_dim if a.qk_norm else 0)
    mlp = 3 * hidden * spec.mlp.intermediate + (2 * spec.mlp.intermediate + hidden if spec.mlp.bias else 0)
    tables = spec.vocab_rows * hidden * (1 if spec.tied_head else 2)
    return spec.layers * (attention + mlp + 2 * hidden) + tables + hidden


def embedding_rows(weights: Weights, names: WeightNames, stated: int) -> int:
    """Rows of a checkpoint's embedding; what config.json states where there is no such table."""
    tensor = weights.get(names.embedding)
    return tensor.shape[0] if tensor is not None and len(tensor.shape) == 2 else stated
