import itertools
import random
from pathlib import Path

import pytest
from gguf.constants import TokenType
from tokenizers import Tokenizer
from tokenizers.models import BPE

from specc.checkpoint.gguf_sentencepiece import merges_by_score
from specc.checkpoint.gguf_vocabulary import Vocabulary
from specc.errors import CheckpointError
from tests.support.refusals import refuses

HERE = Path("x.gguf")


def vocabulary_of(pieces, kinds=None):
    kinds = kinds or [int(TokenType.NORMAL)] * len(pieces)
    return Vocabulary(pieces, kinds, {piece: index for index, piece in enumerate(pieces)})


def join_best(text, score):
    """SentencePiece's rule in its own words: join the best-scored pair of neighbours, the leftmost first."""
    symbols = list(text)
    while True:
        candidates = [
            (score[left + right], -place)
            for place, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in score
        ]
        if not candidates:
            return symbols
        place = -max(candidates)[1]
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]


def random_pieces(rng, alphabet, count):
    """A vocabulary as training leaves it: every piece joins two earlier ones."""
    pieces = list(alphabet)
    while len(pieces) < len(alphabet) + count:
        piece = rng.choice(pieces) + rng.choice(pieces)
        if piece not in pieces and len(piece) <= 6:
            pieces.append(piece)
    return pieces


@pytest.mark.parametrize("seed", range(20))
def test_merges_split_text_as_joining_by_score_does(seed):
    rng = random.Random(seed)
    pieces = random_pieces(rng, "abc▁", 60)
    scores = [-float(index) for index in range(len(pieces))]
    vocabulary = vocabulary_of(pieces)
    model = Tokenizer(BPE(vocab=vocabulary.ids, merges=merges_by_score(HERE, vocabulary, scores)))
    for _ in range(200):
        text = "".join(rng.choice("abc▁") for _ in range(rng.randrange(30)))
        assert model.encode(text).tokens == join_best(text, dict(zip(pieces, scores, strict=True)))


def test_better_pieces_come_first_and_longer_left_halves_before_shorter():
    pieces, scores = ["a", "b", "ab", "aa", "aaa"], [0.0, 0.0, -2.0, -1.0, -3.0]
    assert merges_by_score(HERE, vocabulary_of(pieces), scores) == [("a", "a"), ("a", "b"), ("aa", "a"), ("a", "aa")]


def test_only_normal_pieces_are_built():
    kinds = [TokenType.NORMAL, TokenType.NORMAL, TokenType.CONTROL]
    assert merges_by_score(HERE, vocabulary_of(["a", "b", "ab"], kinds), [0.0, 0.0, 0.0]) == []


def test_piece_of_absurd_length():
    with refuses(CheckpointError, HERE, "token 0 is 5000 characters long"):
        merges_by_score(HERE, vocabulary_of(["a" * 5000]), [0.0])
