"""SentencePiece BPE as ranked merges: GGUF keeps the pieces' scores, tokenizer.json wants the merges.

SentencePiece joins, again and again, the neighbours whose union is the best-scored piece (Kudo and Richardson 2018).
Ranking every way to split a piece in two by that piece's score makes plain BPE do the same.
"""

from collections.abc import Sequence
from pathlib import Path

from gguf.constants import TokenType

from specc.checkpoint.gguf_vocabulary import Vocabulary
from specc.errors import CheckpointError

_MAX_PIECE = 1024  # characters; trainers stop at 16 and hand-made pieces far below, and splits cost its square


def merges_by_score(path: Path, vocabulary: Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """Merges, best first, that build the vocabulary's normal pieces; `scores` by id, higher is better.

    Of the splits of one piece those with the longer left half come first: they meet only inside a run of one repeated
    text, which SentencePiece joins from the left.
    """
    ids = vocabulary.ids
    ranked: list[tuple[float, int, int, tuple[str, str]]] = []
    for piece, index in ids.items():
        if vocabulary.kinds[index] != TokenType.NORMAL:
            continue
        if len(piece) > _MAX_PIECE:
            raise CheckpointError(
                f"{path}: token {index} is {len(piece)} characters long, over {_MAX_PIECE}; convert the model again"
            )
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                ranked.append((-scores[index], index, -cut, (left, right)))
    ranked.sort()
    return [merge for *_, merge in ranked]
