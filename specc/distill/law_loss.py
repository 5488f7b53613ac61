"""The distillation loss: the verifier's law on the kept rows, position by position."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class HeadLoss(torch.autograd.Function):
    """Weighted sum over positions of mass-weighted KL between the verifier's law and softmax of the kept rows.

    With p the verifier's full law, restricted to the kept rows without renormalising, and q the drafter's law there:
    sum_v p(v) (log p(v) - log q(v)). That is the KL of the renormalised law times the mass the kept rows hold, so a
    position whose next token the drafter can't propose anyway teaches nothing. The head is frozen, hence the gradient
    is formed with the loss and logits are never kept.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, head: Tensor, log_law: Tensor, weights: Tensor) -> Tensor:
        """states f32[T, H]; head `[R, H]`; log_law f32[T, R] of the verifier; weights f32[T]. A scalar."""
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
