import pytest
import torch
from torch import nn

from specc.distill.optimiser import Optimiser, orthogonalised
from specc.distill.options import Recipe


@pytest.mark.parametrize("shape", [(20, 20), (48, 16), (16, 48)])
def test_orthogonalised_keeps_the_directions_and_evens_their_lengths(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, lengths, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ orthogonalised(matrix, torch.float32) @ v.T
    torch.testing.assert_close(inner, torch.diag(inner.diagonal()), rtol=0, atol=1e-4)
    longer = lengths > lengths.max() / 20  # the shortest take more iterations than are made
    assert inner.diagonal()[longer].min() > 0.6
    assert inner.diagonal().max() < 1.3


def test_steps_are_those_of_muon_and_adamw_in_torch() -> None:
    recipe = Recipe(warmup_share=0.0)
    generator = torch.Generator().manual_seed(1)
    ours = {"m": nn.Parameter(torch.randn(12, 8, generator=generator)), "v": nn.Parameter(torch.ones(8))}
    matrix, vector = (nn.Parameter(p.detach().clone()) for p in ours.values())
    decay = recipe.weight_decay
    muon = torch.optim.Muon([matrix], lr=recipe.learning_rate, weight_decay=decay, momentum=0.95)
    adamw = torch.optim.AdamW([vector], lr=recipe.vector_rate, betas=(0.9, 0.95), weight_decay=0.0)
    optimiser = Optimiser(ours, recipe, torch.bfloat16)
    for _ in range(5):
        gradients = [0.01 * torch.randn(p.shape, generator=generator) for p in (matrix, vector)]
        for parameters in ((matrix, vector), ours.values()):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clone()
        muon.step()
        adamw.step()
        optimiser.step(0.0)
    torch.testing.assert_close(ours["m"], matrix, rtol=0, atol=1e-3)  # bf16 products of moves of 0.02
    torch.testing.assert_close(ours["v"], vector, rtol=0, atol=1e-6)
    assert all(p.grad is None for p in ours.values())


def test_the_rate_warms_up_and_ends_at_nothing() -> None:
    recipe = Recipe(warmup_share=0.1, weight_decay=0.0)
    moved = []
    for share in (0.0, 0.05, 0.1, 0.55, 1.0):
        parameter = nn.Parameter(torch.eye(4))
        parameter.grad = torch.eye(4)
        still = nn.Parameter(torch.ones(4))
        Optimiser({"m": parameter, "v": still}, recipe, torch.float32).step(share)
        moved.append(float((parameter.detach() - torch.eye(4)).norm()))
    assert moved[0] < moved[1] < moved[2]
    assert moved[3] == pytest.approx(moved[2] / 2, rel=1e-3)
    assert moved[4] == pytest.approx(0.0, abs=1e-7)
