"""The text as training sees it: conversations in batches, a part held out."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specc.distill.conversations import Conversations
from specc.distill.text_phase import questions
from specc.errors import OptionError


@dataclass(frozen=True)
class Batch:
    """B conversations of N tokens on the training device.

    tokens i64[B, N]; last, features fp16 `[B, N, ...]`; log_partition f32[B, N]; answers bool[B, N]: whether the token
    AFTER a position is the assistant's; temperatures f32[B].
    """

    tokens: Tensor
    last: Tensor
    features: Tensor
    log_partition: Tensor
    answers: Tensor
    temperatures: Tensor


class Corpus:
    """All shards, split by what each conversation begins with: one in `held_out` is never trained on."""

    def __init__(self, shards: Sequence[Conversations], opening: int, held_out: int) -> None:
        self._shards = shards
        numbers = [
            (number, (shard, row))
            for shard, made in enumerate(shards)
            for row, number in enumerate(questions(made.tokens, made.answers, opening))
        ]
        if len(numbers) < 2:
            raise OptionError(
                f"minutes: time for {len(numbers)} conversations; one to train on and one to hold out are needed"
            )
        kept_apart = {place for number, place in numbers if number % held_out == 0}
        if len(kept_apart) in (0, len(numbers)):
            kept_apart = {numbers[0][1]}
        self.held_out = [place for _, place in numbers if place in kept_apart]
        self.trained = [place for _, place in numbers if place not in kept_apart]

    @property
    def tokens(self) -> int:
        """Tokens to train on."""
        return sum(self._shards[shard].tokens.shape[1] for shard, _ in self.trained)

    def epoch(self, tokens: int, generator: torch.Generator) -> list[list[tuple[int, int]]]:
        """The training conversations once, in random batches of equal lengths and about so many tokens."""
        by_length: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for index in torch.randperm(len(self.trained), generator=generator).tolist():
            shard, _ = self.trained[index]
            by_length[self._shards[shard].tokens.shape[1]].append(self.trained[index])
        batches = []
        for length, rows in by_length.items():
            size = max(1, tokens // length)
            batches += [rows[i : i + size] for i in range(0, len(rows), size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    def batch(self, places: Sequence[tuple[int, int]], device: torch.device) -> Batch:
        """The conversations at `places`, which are of one length."""

        def gathered(name: str) -> Tensor:
            return torch.stack([getattr(self._shards[shard], name)[row] for shard, row in places]).to(device)

        answers = gathered("answers")
        after = torch.cat([answers[:, 1:], answers[:, -1:]], 1)
        return Batch(
            gathered("tokens").long(),
            gathered("last"),
            gathered("features"),
            gathered("log_partition"),
            after,
            gathered("temperatures"),
        )

    def held_out_batches(self, size: int, device: torch.device, limit: int | None = None) -> Iterator[Batch]:
        """The first `limit` held-out conversations (all), longest first, in batches of equal lengths."""
        by_length: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for place in self.held_out[:limit]:
            by_length[self._shards[place[0]].tokens.shape[1]].append(place)
        for length in sorted(by_length, reverse=True):
            rows = by_length[length]
            for i in range(0, len(rows), size):
                yield self.batch(rows[i : i + size], device)
