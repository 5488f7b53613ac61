"""Does the checkpoint's head agree with what config.json says of it?"""

import numpy as np

from specc.checkpoint.types import Checkpoint, WeightTensor
from specc.errors import CheckpointError
from specc.models.spec import DecoderSpec

_FIELD = "config.json field 'tie_word_embeddings'"


def check_head(checkpoint: Checkpoint, spec: DecoderSpec) -> None:
    """Raise CheckpointError when an untied head is missing, or there is one beside an embedding that serves as head."""
    embedding, head = (checkpoint.weights.get(name) for name in (spec.names.embedding, spec.names.head))
    if embedding is None:
        return
    if head is None and not spec.tied_head:
        raise CheckpointError(
            f"{checkpoint.path}: weight {spec.names.head!r} is missing, and {_FIELD} is not true; "
            "complete the checkpoint, or set the field if the embedding serves as head"
        )
    if head is not None and spec.tied_head and not _equal(head, embedding):
        raise CheckpointError(
            f"{checkpoint.path}: {_FIELD} is true, but weight {spec.names.head!r} is not the embedding; "
            "set the field to false, or remove the weight"
        )


def _equal(head: WeightTensor, embedding: WeightTensor) -> bool:
    return head.shape == embedding.shape and np.array_equal(head.numpy(), embedding.numpy())
