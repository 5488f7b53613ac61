"""How many drafted tokens the verifier would accept, on text it wrote itself."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from specc.distill.corpus import Batch
from specc.distill.drafters import Drafter
from specc.distill.measurements import Acceptance

DEPTH = 8


class AcceptanceMeter:
    """Measures a drafter against the verifier's head.

    On text drawn at T=1 the chance that k tokens are accepted is the mean over text of prod min(1, q/p) at the text's
    own tokens (an importance sum of prod min(p, q), unbiased); on greedy text it is the share of equal argmaxes.
    """

    def __init__(self, drafter: Drafter, head: Tensor, ids: Tensor, full_head: Tensor) -> None:
        self._drafter, self.head, self._ids, self._full_head = drafter, head, ids, full_head
        self._rows = torch.full((full_head.shape[0],), -1, device=ids.device)
        self._rows[ids] = torch.arange(len(ids), device=ids.device)

    @torch.inference_mode()
    def measure(self, batches: Iterable[Batch]) -> tuple[Acceptance, Acceptance]:
        """At T=0 on the conversations with greedy answers, at T=1 on those with answers drawn at 1."""
        greedy, sampled = _Sum(), _Sum()
        for batch in batches:
            depth = min(DEPTH, self._drafter.steps or DEPTH)
            accepted, overlap = self._accepted(batch, depth)
            for total, wanted in ((greedy, 0.0), (sampled, 1.0)):
                rows = batch.temperatures == wanted
                if bool(rows.any()):
                    drafted = [chance[rows] for chance in accepted[wanted]]
                    total.add(drafted, overlap[rows], batch.answers[rows], self._drafter.first)
        return greedy.acceptance(by_laws=False), sampled.acceptance(by_laws=True)

    def _accepted(self, batch: Batch, depth: int) -> tuple[dict[float, list[Tensor]], Tensor]:
        """Per temperature and step the chance f32[B, N] that the text's next token is accepted; step 0's overlap."""
        following = functional.pad(batch.tokens[:, 1:], (0, 1))
        rows = self._rows[following]
        log_p = self._log_p(batch, following)
        states = self._drafter.rollout(batch.tokens, batch.features, depth)
        at_zero, at_one, overlap = [], [], torch.empty(0)
        for step, state in enumerate(states):
            log_q = functional.linear(state.to(self.head.dtype), self.head).float().log_softmax(-1)
            at_zero.append((log_q.argmax(-1) == rows).float())
            ratio = (log_q.gather(-1, rows.clamp(min=0)[..., None])[..., 0] - log_p).exp().clamp(max=1)
            at_one.append(ratio * (rows >= 0))
            if step == 0:
                overlap = torch.minimum(log_q.exp(), self.log_law(batch).exp()).sum(-1)
        return {0.0: at_zero, 1.0: at_one}, overlap

    def log_law(self, batch: Batch) -> Tensor:
        """The verifier's log-law f32[B, N, R] of the kept rows, with the mass of all rows below."""
        last = batch.last.to(self.head.dtype)
        return functional.linear(last, self.head).float() - batch.log_partition[..., None]

    def _log_p(self, batch: Batch, following: Tensor) -> Tensor:
        chosen = functional.embedding(following, self._full_head).float()
        return (chosen * batch.last.float()).sum(-1) - batch.log_partition


class _Sum:
    def __init__(self) -> None:
        self.survival = torch.zeros(DEPTH, dtype=torch.float64)
        self.first, self.rounds = 0.0, 0

    def add(self, accepted: list[Tensor], overlap: Tensor, answers: Tensor, first: int) -> None:
        """Rounds whose DEPTH positions all lie in answers; their k-th token is drafted by step k-1."""
        depth, width = len(accepted), answers.shape[1]
        starts = max(width - DEPTH, 0)
        inside = torch.stack([answers[:, k : k + starts] for k in range(DEPTH)]).all(0)
        inside[:, :first] = False
        running = torch.ones_like(overlap[:, :starts])
        for k in range(DEPTH):
            running = running * accepted[min(k, depth - 1)][:, k : k + starts]
            self.survival[k] += float(running[inside].sum())
        self.first += float(overlap[:, :starts][inside].sum())
        self.rounds += int(inside.sum())

    def acceptance(self, by_laws: bool) -> Acceptance:
        count = max(self.rounds, 1)
        survival = tuple((self.survival / count).tolist())
        return Acceptance(survival, self.first / count if by_laws else survival[0], self.rounds)
