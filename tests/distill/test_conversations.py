import itertools
import time

import pytest
import torch

from specc.assembly.sources import open_model
from specc.distill import conversations
from specc.distill.chat_pieces import ChatPieces, chat_pieces
from specc.distill.conversations import ANSWER_TEMPERATURES, Conversations, converse, draw, loops
from specc.distill.verifier import Verifier
from tests.distill.tiny_verifier import write_tiny_verifier

LENGTH, SEQUENCES, LAYERS = 96, 6, (0, 2)


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Verifier:
    folder = write_tiny_verifier(tmp_path_factory.mktemp("verifier"))
    return Verifier(open_model(str(folder), ()), torch.float32, torch.device("cpu"))


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> ChatPieces:
    folder = write_tiny_verifier(tmp_path_factory.mktemp("pieces"))
    files = open_model(str(folder), ()).checkpoint.tokenizer
    assert files is not None
    return chat_pieces(files, "x")


def made(verifier: Verifier, pieces: ChatPieces, seed: int = 1, seconds: float = 100.0) -> Conversations:
    deadline = time.monotonic() + seconds
    return converse(verifier, pieces, pieces.openings[0], LAYERS, SEQUENCES, LENGTH, seed, deadline, lambda: None)


def test_states_are_those_of_reading_the_finished_text(verifier: Verifier, pieces: ChatPieces) -> None:
    text = made(verifier, pieces)
    tokens = text.tokens.long()
    states = verifier.forward(tokens, verifier.new_cache(*tokens.shape), LAYERS)
    torch.testing.assert_close(text.last.float(), states.last, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(text.features.float(), states.features, rtol=2e-3, atol=2e-3)
    partition = torch.logsumexp(verifier.logits(states.last), -1)
    torch.testing.assert_close(text.log_partition, partition, rtol=1e-4, atol=1e-4)


def test_greedy_answers_are_the_verifiers_argmax(verifier: Verifier, pieces: ChatPieces) -> None:
    text = made(verifier, pieces)
    row = ANSWER_TEMPERATURES.index(0.0)
    tokens, answers = text.tokens[row].long(), text.answers[row]
    logits = verifier.logits(verifier.forward(tokens[None], verifier.new_cache(1, LENGTH)).last)[0]
    logits[:, sorted(pieces.ends)] -= 100 * (~answers[:, None]).float()  # a turn's first token is no end
    said = answers[1:].nonzero()[:, 0]
    assert len(said) > 5
    assert torch.equal(logits[said].argmax(-1), tokens[said + 1])


def test_turns_alternate_as_the_template_has_them(verifier: Verifier, pieces: ChatPieces) -> None:
    text = made(verifier, pieces)
    for tokens, answers in zip(text.tokens.tolist(), text.answers.tolist(), strict=True):
        assert tuple(tokens[: len(pieces.openings[0])]) == pieces.openings[0]
        starts = [i for i in range(1, len(tokens)) if answers[i] and not answers[i - 1]]
        for start in starts:
            assert tuple(tokens[start - len(pieces.to_assistant) : start]) == pieces.to_assistant
    assert text.answers.any()


def test_text_depends_on_the_seed_alone(verifier: Verifier, pieces: ChatPieces) -> None:
    assert torch.equal(made(verifier, pieces).tokens, made(verifier, pieces).tokens)
    assert not torch.equal(made(verifier, pieces).tokens, made(verifier, pieces, seed=2).tokens)


def test_a_deadline_cuts_all_conversations_alike(verifier: Verifier, pieces: ChatPieces) -> None:
    text = made(verifier, pieces, seconds=0.0)
    assert text.tokens.shape == (SEQUENCES, len(pieces.openings[0]))
    assert text.features.shape == (SEQUENCES, len(pieces.openings[0]), len(LAYERS) * 32)


def test_draws_follow_the_tempered_law() -> None:
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7])).expand(20000, 3).clone()
    temperatures = torch.full((20000,), 0.5)
    counts = torch.bincount(draw(logits, temperatures, torch.Generator().manual_seed(0)), minlength=3) / 20000
    law = torch.tensor([0.01, 0.04, 0.49]) / 0.54
    torch.testing.assert_close(counts, law, rtol=0.0, atol=0.012)  # 3.4 standard deviations of the likeliest
    assert draw(logits[:2], torch.zeros(2), torch.Generator()).tolist() == [2, 2]


def test_a_turn_that_repeats_itself_is_a_loop() -> None:
    plain = list(range(300))
    assert not any(loops(plain[:n]) for n in range(len(plain)))
    stuck = plain[:60] + [1000 + i % 9 for i in range(200)]
    first = next(n for n in range(len(stuck)) if loops(stuck[:n]))
    assert 96 <= first <= 60 + 9 + 48 + 24
    counting = plain[:60] + [token for i in range(40) for token in (1, 2, 3, 4, 5, 6, 2000 + i)]  # "image12.jpg", ...
    assert any(loops(counting[:n]) for n in range(len(counting)))


def test_a_turn_found_looping_is_ended(verifier: Verifier, pieces: ChatPieces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "loops", lambda said: len(said) >= 5)
    text = made(verifier, pieces)
    for answers in text.answers.tolist():
        assert all(len(list(run)) <= 5 for said, run in itertools.groupby(answers) if said)
    assert text.answers.any()
