from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from specc.distill.acceptance import DEPTH, AcceptanceMeter
from specc.distill.corpus import Batch
from specc.distill.measurements import Acceptance

VOCABULARY, HIDDEN, LENGTH = 6, 4, 400


class FixedDrafter(nn.Module):
    """Says the same states at every step."""

    first, steps = 1, None

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states

    def rollout(self, tokens: Tensor, features: Tensor, steps: int) -> Iterator[Tensor]:
        for _ in range(steps):
            yield self.states


def text(temperature: float, last: Tensor, head: Tensor, seed: int = 0) -> Batch:
    """Text of independent draws from the laws of `last` `[B, LENGTH, HIDDEN]`."""
    logits = last @ head.T
    laws = torch.softmax(logits, -1).flatten(0, 1)
    drawn = torch.multinomial(laws, 1, generator=torch.Generator().manual_seed(seed)).reshape(last.shape[:2])
    chosen = drawn if temperature else logits.argmax(-1)
    tokens = torch.cat([torch.zeros(len(last), 1, dtype=torch.long), chosen[:, :-1]], 1)
    answers = torch.ones_like(tokens, dtype=torch.bool)
    partition = torch.logsumexp(logits, -1)
    return Batch(tokens, last, last[..., :0], partition, answers, torch.full((len(last),), temperature))


def measured(batch: Batch, states: Tensor, head: Tensor, kept: Tensor) -> tuple[Acceptance, Acceptance]:
    return AcceptanceMeter(FixedDrafter(states), head[kept], kept, head).measure([batch])  # type: ignore[arg-type]


@pytest.fixture
def head() -> Tensor:
    return torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(1))


def states(seed: int) -> Tensor:
    return torch.randn(8, LENGTH, HIDDEN, generator=torch.Generator().manual_seed(seed))


def test_the_verifier_as_its_own_drafter_is_always_accepted(head: Tensor) -> None:
    last, every = states(2), torch.arange(VOCABULARY)
    greedy, _ = measured(text(0.0, last, head), last, head, every)
    _, sampled = measured(text(1.0, last, head), last, head, every)
    assert greedy.per_position == (1.0,) * DEPTH
    assert sampled.per_position == pytest.approx((1.0,) * DEPTH, abs=1e-5)
    assert sampled.first == pytest.approx(1.0, abs=1e-5)
    assert sampled.tokens_per_round(4) == pytest.approx(5.0, abs=1e-4)
    assert greedy.rounds == 8 * (LENGTH - DEPTH - 1)


def test_sampled_survival_estimates_the_product_of_overlaps(head: Tensor) -> None:
    """With independent positions the chance that k tokens are accepted is the k-th power of the mean overlap."""
    last = states(2)
    drafted, kept = last + 0.7 * states(3), torch.tensor([0, 1, 3, 4, 5])
    _, sampled = measured(text(1.0, last, head), drafted, head, kept)
    law, q = torch.softmax(last @ head.T, -1)[..., kept], torch.softmax(drafted @ head[kept].T, -1)
    overlap = float(torch.minimum(law, q).sum(-1).mean())
    assert sampled.first == pytest.approx(overlap, abs=0.01)
    for k in range(3):
        assert sampled.survival[k] == pytest.approx(overlap ** (k + 1), abs=0.03)


def test_greedy_acceptance_is_the_share_of_equal_argmaxes(head: Tensor) -> None:
    last, every = states(2), torch.arange(VOCABULARY)
    drafted = last + 0.7 * states(3)
    greedy, sampled = measured(text(0.0, last, head), drafted, head, every)
    equal = ((last @ head.T).argmax(-1) == (drafted @ head.T).argmax(-1)).float()
    assert greedy.first == pytest.approx(float(equal[:, 1 : LENGTH - DEPTH].mean()), abs=1e-6)
    both = equal[:, 1 : LENGTH - DEPTH] * equal[:, 2 : LENGTH - DEPTH + 1]
    assert greedy.survival[1] == pytest.approx(float(both.mean()), abs=1e-6)
    assert sampled.rounds == 0


def test_rounds_that_leave_an_answer_do_not_count(head: Tensor) -> None:
    last = states(2)
    batch = text(0.0, last, head)
    batch.answers[:, 20:] = False
    greedy, _ = measured(batch, last, head, torch.arange(VOCABULARY))
    assert greedy.rounds == 8 * (20 - DEPTH)  # starts 1 to 12
