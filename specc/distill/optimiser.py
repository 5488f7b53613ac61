"""Muon for matrices (Jordan et al. 2024), AdamW for vectors, one schedule for both."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from specc.distill.options import Recipe

_MOMENTUM = 0.95
_BETAS = (0.9, 0.95)
_CLIP = 1.0
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NEWTON_SCHULZ_STEPS = 5


class Optimiser:
    """Moves parameters against their gradients.

    A matrix moves by its orthogonalised momentum: every direction it could learn in moves alike, and a drafter learns
    more from the same text than with AdamW. `torch.optim.Muon` does the same in bf16 alone, which a CPU without bf16
    products emulates; this one multiplies in the `dtype` that is fast.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], recipe: Recipe, dtype: torch.dtype) -> None:
        self._recipe, self._dtype = recipe, dtype
        self._matrices = {name: p for name, p in parameters.items() if p.ndim == 2}
        self._vectors = {name: p for name, p in parameters.items() if p.ndim != 2}
        self._momenta = {name: torch.zeros_like(p) for name, p in self._matrices.items()}
        self._adamw = torch.optim.AdamW(self._vectors.values(), lr=recipe.vector_rate, betas=_BETAS, weight_decay=0.0)

    def step(self, share: float) -> None:
        """One step with the gradients there are, which are cleared. share: of the training done, 0 to 1."""
        factor = _schedule(share, self._recipe.warmup_share)
        for group in self._adamw.param_groups:
            group["lr"] = self._recipe.vector_rate * factor
        everything = [*self._matrices.values(), *self._vectors.values()]
        torch.nn.utils.clip_grad_norm_(everything, _CLIP)
        self._adamw.step()
        with torch.no_grad():
            for name, matrix in self._matrices.items():
                self._move(matrix, self._momenta[name], self._recipe.learning_rate * factor)
        for parameter in everything:
            parameter.grad = None

    def _move(self, matrix: nn.Parameter, momentum: Tensor, rate: float) -> None:
        assert matrix.grad is not None
        momentum.lerp_(matrix.grad, 1 - _MOMENTUM)
        direction = orthogonalised(matrix.grad.lerp(momentum, _MOMENTUM), self._dtype)
        rows, columns = matrix.shape
        matrix.mul_(1 - rate * self._recipe.weight_decay)
        matrix.sub_(direction, alpha=rate * math.sqrt(max(1.0, rows / columns)))

    def state(self) -> dict[str, Tensor]:
        """What `load` goes on from."""
        tensors = {f"momentum.{name}": t for name, t in self._momenta.items()}
        for name, vector in self._vectors.items():
            moments = self._adamw.state[vector]
            tensors |= {f"first.{name}": moments["exp_avg"], f"second.{name}": moments["exp_avg_sq"]}
        return tensors

    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Go on after `steps` steps from what `state` gave."""
        for name, momentum in self._momenta.items():
            momentum.copy_(tensors[f"momentum.{name}"])
        for name, vector in self._vectors.items():
            self._adamw.state[vector] = {
                "step": torch.tensor(float(steps)),
                "exp_avg": tensors[f"first.{name}"].to(vector.device),
                "exp_avg_sq": tensors[f"second.{name}"].to(vector.device),
            }


def orthogonalised(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """`U V^T` of the matrix's `U S V^T`, roughly: singular values within about 0.7 to 1.2 (a quintic Newton-Schulz)."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).to(dtype)
    x = x / x.norm().clamp(min=1e-7)
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)


def _schedule(share: float, warmup: float) -> float:
    """Linear warm-up, then half a cosine down to 0."""
    if share < warmup:
        return (share + 1e-3) / (warmup + 1e-3)
    return 0.5 + 0.5 * math.cos(math.pi * (share - warmup) / (1 - warmup))
