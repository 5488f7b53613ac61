"""Second phase: the drafter learns the verifier's law from the cached states."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import torch
from torch import Tensor

from specc.distill.acceptance import AcceptanceMeter
from specc.distill.corpus import Batch, Corpus
from specc.distill.drafters import Drafter
from specc.distill.law_loss import KeptLaw, head_loss
from specc.distill.measurements import Acceptance, CurvePoint
from specc.distill.optimiser import Optimiser
from specc.distill.options import DistillOptions
from specc.distill.working_folder import WorkingFolder

PHASE = "training"

_STATE = "training.safetensors"
_BEST = "best.safetensors"


class Training:
    """Rollouts, a schedule over the time there is, a running average of the weights, the best one kept."""

    def __init__(
        self, options: DistillOptions, drafter: Drafter, meter: AcceptanceMeter, corpus: Corpus, folder: WorkingFolder
    ) -> None:
        self._options, self._drafter, self._meter, self._corpus, self._folder = options, drafter, meter, corpus, folder
        self._device = next(drafter.parameters()).device
        self._parameters = dict(drafter.named_parameters())
        self._average = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._optimiser = Optimiser(self._parameters, options.recipe, drafter.dtype)
        self._step, self._tokens, self._losses = 0, 0, torch.zeros(2)
        self._spent = 0.0
        self.curve: list[CurvePoint] = []
        self._load()

    def run(self, seconds: float, elapsed: Callable[[float], None]) -> None:
        """Train until `seconds` of training are spent over all runs, or the recipe's number of steps is done."""
        begun = time.monotonic() - self._spent
        between = 1 / self._options.recipe.evaluations
        evaluated = self._share(seconds)
        batches = self._batches()
        while (share := self._share(seconds)) < 1:
            self._learn(next(batches), share)
            self._spent = time.monotonic() - begun
            elapsed(self._spent)
            if share - evaluated >= between:
                self._evaluate()
                evaluated = share
        if not self.curve or self.curve[-1].step < self._step:
            self._evaluate()

    def best(self) -> dict[str, Tensor]:
        """The averaged weights that did best on held-out text."""
        tensors, _ = self._folder.read_tensors(_BEST) or (self._average, {})
        return {name: t.to(self._device) for name, t in tensors.items()}

    def _share(self, seconds: float) -> float:
        """How much of the training is done, 0 to 1."""
        limit = self._options.recipe.training_steps
        return self._spent / seconds if limit is None else self._step / limit

    def _batches(self) -> Iterator[Batch]:
        """Epochs in an order that depends on the seed alone, from where the training stands."""
        tokens, step, epoch = self._options.recipe.batch, 0, 0
        while True:
            order = self._corpus.epoch(tokens, torch.Generator().manual_seed(self._options.seed + epoch))
            for places in order[max(self._step - step, 0) :]:
                yield self._corpus.batch(places, self._device)
            step, epoch = step + len(order), epoch + 1

    def _learn(self, batch: Batch, share: float) -> None:
        recipe = self._options.recipe
        depth = 1 if share < recipe.single_share else recipe.steps
        loss = self._loss(batch, min(depth, self._drafter.steps or depth))
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._optimiser.step(share)
        self._step += 1
        self._tokens += batch.tokens.numel()
        self._losses += torch.tensor([loss.item(), 1.0])
        decay = min(recipe.average, self._step / (self._step + 10))
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                self._average[name].lerp_(parameter, 1 - decay)

    def _loss(self, batch: Batch, depth: int) -> Tensor:
        """Mean over positions, then over rollout steps with decaying weight; in nats.

        All positions are learnt from in the first step, those the assistant speaks at in the deeper ones too.
        """
        recipe, drafter = self._options.recipe, self._drafter
        learnt = torch.ones_like(batch.answers)
        law = KeptLaw.of(self._meter.log_law(batch).flatten(0, 1))
        total, scale = torch.zeros((), device=self._device), 0.0
        for step, state in enumerate(drafter.rollout(batch.tokens, batch.features, depth)):
            learnt = learnt if step == 0 else batch.answers.clone()
            learnt[:, : drafter.first + step] = False
            positions = learnt.flatten().nonzero()[:, 0]
            weights = torch.full(positions.shape, recipe.decay**step / max(len(positions), 1), device=self._device)
            total = total + head_loss(state.flatten(0, 1)[positions], self._meter.head, law.at(positions), weights)
            scale += recipe.decay**step
        return total / scale

    def _evaluate(self) -> None:
        """Measure the average, note it in the curve, keep it if it is the best, and save the state."""
        greedy, sampled = self.measured(self._average, self._options.recipe.evaluated)
        loss = float(self._losses[0] / self._losses[1]) if self._losses[1] else math.nan
        point = CurvePoint(
            self._step, self._spent, self._tokens, loss, greedy.first, sampled.first, _score(greedy, sampled)
        )
        if all(point.tokens_per_round >= other.tokens_per_round for other in self.curve):
            self._folder.write_tensors(_BEST, self._average)
        self.curve.append(point)
        self._losses.zero_()
        self.save()

    def measured(self, weights: dict[str, Tensor], conversations: int | None = None) -> tuple[Acceptance, Acceptance]:
        """Acceptance at T=0 and T=1 of the drafter with `weights`, on that many held-out conversations (all)."""
        trained = {name: p.detach().clone() for name, p in self._parameters.items()}
        try:
            self._set(weights)
            return self._meter.measure(self._corpus.held_out_batches(4, self._device, conversations))
        finally:
            self._set(trained)

    def _set(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(weights[name])

    def save(self) -> None:
        """Write what a later run goes on from."""
        tensors = {f"weights.{name}": p.detach() for name, p in self._parameters.items()}
        tensors |= {f"average.{name}": t for name, t in self._average.items()}
        tensors |= self._optimiser.state()
        note = {"step": self._step, "tokens": self._tokens, "curve": [asdict(point) for point in self.curve]}
        self._folder.write_tensors(_STATE, tensors, note)
        self._folder.spend(PHASE, self._spent)

    def _load(self) -> None:
        found = self._folder.read_tensors(_STATE)
        if found is None:
            return
        tensors, note = found
        self._set({name: tensors[f"weights.{name}"] for name in self._parameters})
        self._average = {name: tensors[f"average.{name}"].to(self._device) for name in self._parameters}
        self._optimiser.load(tensors, note["step"])
        self._step, self._tokens = note["step"], note["tokens"]
        self.curve = [CurvePoint(**point) for point in note["curve"]]
        self._spent = self._folder.spent(PHASE)


def _score(greedy: Acceptance, sampled: Acceptance) -> float:
    """What the best is chosen by: tokens a round of 4 drafted emits, mean of T=0 and T=1."""
    return (greedy.tokens_per_round(4) + sampled.tokens_per_round(4)) / 2
