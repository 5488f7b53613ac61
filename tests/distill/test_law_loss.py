import torch

from specc.distill.law_loss import KeptLaw, head_loss


def test_loss_and_gradient_are_those_of_the_mass_weighted_divergence() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(5, 4, generator=generator, requires_grad=True)
    full = torch.randn(7, 4, generator=generator)
    kept = torch.tensor([0, 2, 3, 6])
    log_law = torch.randn(5, 7, generator=generator).log_softmax(-1)[:, kept]
    weights = torch.rand(5, generator=generator)
    loss = head_loss(states, full[kept], KeptLaw.of(log_law), weights)
    (gradient,) = torch.autograd.grad(loss, states)

    log_q = (states @ full[kept].T).log_softmax(-1)
    law = log_law.exp()
    mass = law.sum(-1)
    renormalised = (law / mass[:, None] * (log_law - mass.log()[:, None] - log_q)).sum(-1)
    expected = (weights * mass * (renormalised + mass.log())).sum()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, states)[0], rtol=1e-5, atol=1e-6)
