"""The distillation loss: the verifier's law on the kept rows, position by position."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional


def head_loss(states: Tensor, head: Tensor, log_law: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum over positions of mass-weighted KL between the verifier's law and softmax of the kept rows.

    With p the verifier's full law on the kept rows, not renormalised, and q the drafter's law there:
    sum_v p(v) (log p(v) - log q(v)). Up to a constant that is the KL of the renormalised law times the mass the kept
    rows hold: a position whose next token can hardly be proposed teaches as little.
    states f32[T, H]; head `[R, H]`; log_law f32[T, R], log p; weights f32[T]. A scalar, differentiable in the states.
    """
    return cast(Tensor, _HeadLoss.apply(states, head, log_law, weights))  # type: ignore[no-untyped-call]


class _HeadLoss(torch.autograd.Function):
    """The head is frozen, so the states' gradient is formed along with the loss and no logits are kept for it."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, head: Tensor, log_law: Tensor, weights: Tensor) -> Tensor:
        logits = functional.linear(states.to(head.dtype), head).float()
        log_q = logits - torch.logsumexp(logits, -1, keepdim=True)
        law = log_law.exp()
        loss = ((law * (log_law - log_q)).sum(-1) * weights).sum()
        gradient = (log_q.exp_() * law.sum(-1, keepdim=True) - law) * weights[:, None]
        ctx.save_for_backward((gradient.to(head.dtype) @ head).float())
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * gradients[0], None, None, None
