from pathlib import Path

import torch

from specc.assembly.sources import open_model
from specc.distill.conversations import Conversations
from specc.distill.corpus import Corpus
from specc.distill.kept_tokens import kept_tokens
from specc.distill.verifier import Verifier
from tests.distill.tiny_verifier import VOCABULARY, write_tiny_verifier


def test_the_likeliest_are_kept_and_the_ends_always(tmp_path: Path) -> None:
    verifier = Verifier(open_model(str(write_tiny_verifier(tmp_path)), ()), torch.float32, torch.device("cpu"))
    tokens = torch.randint(0, 40, (6, 30), generator=torch.Generator().manual_seed(0))
    tokens[:, 1:] = torch.tensor([7, 8, 9]).repeat(6, 10)[:, :29]
    states = verifier.forward(tokens, verifier.new_cache(6, 30))
    text = Conversations(
        tokens.int(), torch.ones_like(tokens, dtype=torch.bool), states.last.half(), states.features.half(),
        torch.logsumexp(verifier.logits(states.last), -1), torch.ones(6),
    )  # fmt: skip
    corpus = Corpus([text], 1, 1000)
    ids = kept_tokens(corpus, verifier, 10, (299, 3))
    assert ids.tolist() == sorted(ids.tolist())
    assert {7, 8, 9, 299, 3} <= set(ids.tolist())
    laws = torch.cat([torch.softmax(verifier.logits(text.last[row].float()), -1) for _, row in corpus.trained])
    expected = laws.sum(0)
    expected[[7, 8, 9]] += 1000
    expected[[299, 3]] = torch.inf
    assert set(ids.tolist()) == set(expected.topk(10).indices.tolist())
    assert kept_tokens(corpus, verifier, 10**6, ()).tolist() == list(range(VOCABULARY))
