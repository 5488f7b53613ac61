"""The distillation loss: the verifier's law on the kept rows, position by position."""

from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class KeptLaw:
    """The verifier's law of T positions on the kept rows, not renormalised.

    probabilities f32[T, R]; negentropy, mass f32[T].
    """

    probabilities: Tensor
    negentropy: Tensor
    mass: Tensor

    @classmethod
    def of(cls, log_law: Tensor) -> Self:
        """From log-probabilities f32[T, R]."""
        probabilities = log_law.exp()
        return cls(probabilities, torch.linalg.vecdot(probabilities, log_law), probabilities.sum(-1))

    def at(self, positions: Tensor) -> Self:
        """Of some of the positions."""
        return type(self)(self.probabilities[positions], self.negentropy[positions], self.mass[positions])


def head_loss(states: Tensor, head: Tensor, law: KeptLaw, weights: Tensor) -> Tensor:
    """Weighted sum over positions of mass-weighted KL between the verifier's law and softmax of the kept rows.

    With p the verifier's full law on the kept rows, not renormalised, and q the drafter's law there:
    sum_v p(v) (log p(v) - log q(v)). Up to a constant that is the KL of the renormalised law times the mass the kept
    rows hold: a position whose next token can hardly be proposed teaches as little.
    states f32[T, H]; head `[R, H]`; weights f32[T]. A scalar, differentiable in the states.
    """
    probabilities, negentropy, mass = law.probabilities, law.negentropy, law.mass
    apply: Any = _HeadLoss.apply  # torch gives it no types
    return cast(Tensor, apply(states, head, probabilities, negentropy, mass, weights))


class _HeadLoss(torch.autograd.Function):
    """The head is frozen, so the states' gradient is formed along with the loss and no logits are kept for it."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, head: Tensor, law: Tensor, negentropy: Tensor, mass: Tensor, weights: Tensor
    ) -> Tensor:
        log_q = functional.linear(states.to(head.dtype), head).float().log_softmax(-1)
        loss = torch.dot(weights, negentropy - torch.linalg.vecdot(law, log_q))
        gradient = log_q.exp_().mul_(mass[:, None]).sub_(law)
        ctx.save_for_backward((gradient.to(head.dtype) @ head).float() * weights[:, None])
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * gradients[0], None, None, None, None, None
