import pytest
import torch

from specc.distill.conversations import Conversations
from specc.distill.corpus import Corpus
from specc.distill.text_phase import questions
from specc.errors import OptionError

CPU = torch.device("cpu")


def shard(rows: int, length: int, first: int) -> Conversations:
    """Conversations that each ask something else; answers from position 4 on."""
    tokens = torch.arange(first, first + rows)[:, None].expand(rows, length).int().contiguous()
    answers = torch.zeros(rows, length, dtype=torch.bool)
    answers[:, 4:] = True
    states = torch.zeros(rows, length, 2)
    return Conversations(tokens, answers, states, states, states[..., 0], torch.ones(rows))


@pytest.fixture
def corpus() -> Corpus:
    return Corpus([shard(30, 8, 0), shard(10, 12, 30)], opening=1, held_out=5)


def test_what_is_held_out_depends_on_the_question_alone(corpus: Corpus) -> None:
    numbers = questions(shard(40, 8, 0).tokens, shard(40, 8, 0).answers, 1)
    places = [(0, i) for i in range(30)] + [(1, i) for i in range(10)]
    expected = [place for number, place in zip(numbers, places, strict=True) if number % 5 == 0]
    assert corpus.held_out == expected
    assert sorted(corpus.trained + corpus.held_out) == sorted(places)
    assert corpus.tokens == sum((8, 12)[shard] for shard, _ in corpus.trained)


def test_an_epoch_shows_each_conversation_once_in_batches_of_one_length(corpus: Corpus) -> None:
    batches = corpus.epoch(33, torch.Generator().manual_seed(0))
    assert sorted(place for batch in batches for place in batch) == sorted(corpus.trained)
    assert all(len({shard for shard, _ in batch}) == 1 for batch in batches)
    sizes = {shard: max(len(batch) for batch in batches if batch[0][0] == shard) for shard in (0, 1)}
    assert sizes == {0: 33 // 8, 1: 33 // 12}
    assert batches != corpus.epoch(33, torch.Generator().manual_seed(1))


def test_a_position_counts_as_answer_if_the_token_after_it_does(corpus: Corpus) -> None:
    batch = corpus.batch([(0, 3), (0, 4)], CPU)
    assert batch.tokens[:, 0].tolist() == [3, 4]
    assert batch.answers[0].tolist() == [False, False, False, True, True, True, True, True]


@pytest.mark.parametrize("held_out", [1, 10**9])
def test_there_is_always_something_to_train_on_and_to_hold_out(held_out: int) -> None:
    corpus = Corpus([shard(5, 8, 0)], opening=1, held_out=held_out)
    assert (len(corpus.held_out), len(corpus.trained)) == (1, 4)


def test_one_conversation_is_too_few() -> None:
    with pytest.raises(OptionError, match="one to train on and one to hold out"):
        Corpus([shard(1, 8, 0)], opening=1, held_out=5)
