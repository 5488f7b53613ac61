"""Vocabularies: how many ids stand for text, and whether two models mean the same by them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from specc.checkpoint.types import Checkpoint
from specc.errors import VocabularyError


@dataclass(frozen=True)
class Vocabulary:
    """count: ids below it stand for text, pads follow. ids: token string by id, empty when there is no tokenizer."""

    count: int
    ids: Mapping[int, str] = field(default_factory=dict)


def read_vocabulary(checkpoint: Checkpoint, rows: int) -> Vocabulary:
    """The vocabulary of a checkpoint whose embedding has `rows` rows.

    Raises VocabularyError when the tokenizer has ids the embedding has no row for.
    """
    if checkpoint.tokenizer is None:
        return Vocabulary(rows)
    document = json.loads(checkpoint.tokenizer.json)
    vocab = document["model"]["vocab"]
    pairs = vocab.items() if isinstance(vocab, Mapping) else ((entry[0], i) for i, entry in enumerate(vocab))
    ids = {int(i): token for token, i in pairs}
    ids |= {int(added["id"]): added["content"] for added in document.get("added_tokens") or []}
    count = max(ids, default=-1) + 1
    if count > rows:
        raise VocabularyError(
            f"{checkpoint.path}: its tokenizer has id {count - 1} but the embedding only {rows} rows; "
            "the tokenizer belongs to another checkpoint"
        )
    return Vocabulary(count, ids)


def check_same_vocabulary(verifier: Vocabulary, drafter: Vocabulary, drafter_rows: int, source: str) -> int:
    """Number of ids the drafter may propose: those both have. Either may have more of them at the end.

    drafter_rows: rows of the drafter's embedding. source: the drafter, for errors.
    Raises VocabularyError at the first id that stands for two different strings, naming both, and when the verifier can
    emit an id that the drafter has no row for.
    """
    if drafter_rows < verifier.count:
        raise VocabularyError(
            f"{source}: its embedding has {drafter_rows} rows, the verifier emits ids up to {verifier.count - 1}; "
            "drafter and verifier must share one tokenizer"
        )
    if not (verifier.ids and drafter.ids) and verifier.count != drafter.count:
        raise VocabularyError(
            f"{source}: {drafter.count} token ids against the verifier's {verifier.count}, and no tokenizer to compare "
            "them by; add tokenizer.json to both checkpoints"
        )
    common = min(verifier.count, drafter.count)
    for token_id in range(common) if verifier.ids and drafter.ids else ():
        ours, theirs = verifier.ids.get(token_id), drafter.ids.get(token_id)
        if ours != theirs:
            raise VocabularyError(
                f"{source}: token id {token_id} is {_quoted(theirs)} for the drafter and {_quoted(ours)} for the "
                "verifier; drafter and verifier must share one tokenizer"
            )
    return common


def _quoted(token: str | None) -> str:
    return "absent" if token is None else repr(token)
