"""Which tokens the drafter's head keeps: the ones the verifier's own laws expect most (frequency ranked, FR-Spec)."""

import torch
from torch import Tensor

from specc.distill.corpus import Corpus
from specc.distill.verifier import Verifier

_CONVERSATIONS = 256
"""Conversations, spread over the text, whose laws are summed; of the others only tokens are counted."""


@torch.inference_mode()
def kept_tokens(corpus: Corpus, verifier: Verifier, rows: int, always: tuple[int, ...]) -> Tensor:
    """Ascending i64[rows] token ids.

    A token's rank is its count in the training text plus its expected count under the verifier's laws, which also
    ranks tokens the text happens to lack. always: ids kept whatever their rank (ends of turn).
    """
    vocabulary = verifier.head.shape[0]
    counts = torch.zeros(vocabulary, dtype=torch.float64)
    every = -(-len(corpus.trained) // _CONVERSATIONS)
    for number, place in enumerate(corpus.trained):
        batch = corpus.batch([place], verifier.device)
        counts += torch.bincount(batch.tokens[0][batch.answers[0]].cpu(), minlength=vocabulary)
        if number % every == 0:
            laws = torch.softmax(verifier.logits(batch.last[0][batch.answers[0]]), -1)
            counts += laws.sum(0).double().cpu()
    counts[list(always)] = torch.inf
    return counts.topk(min(rows, vocabulary)).indices.sort().values.to(verifier.device)
