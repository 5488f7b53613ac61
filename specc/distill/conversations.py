"""Training text the verifier makes itself: it opens a chat, asks, and answers (as in Magpie, Xu et al. 2024)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specc.distill.chat_pieces import ChatPieces
from specc.distill.verifier import Verifier

USER_TEMPERATURE = 0.9
ANSWER_TEMPERATURES = (0.0, 0.7, 1.0)  # in turn: drafters meet greedy and sampled answers


@dataclass
class _Speaker:
    """Where one conversation is: whose turn, what is fed next, what was said."""

    answer_temperature: float
    answering: bool = False
    turn_is_new: bool = True
    forced: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Conversations:
    """B conversations of N tokens with the verifier's states at each.

    tokens i32[B, N]; answers bool[B, N]: said by the assistant; last f16[B, N, H]; features f16[B, N, F * H];
    log_partition f32[B, N]: logsumexp of the logits; temperatures f32[B] of the answers.
    """

    tokens: Tensor
    answers: Tensor
    last: Tensor
    features: Tensor
    log_partition: Tensor
    temperatures: Tensor


def converse(
    verifier: Verifier,
    pieces: ChatPieces,
    feature_layers: tuple[int, ...],
    sequences: int,
    length: int,
    seed: int,
    deadline: float,
    stepped: Callable[[], None],
) -> Conversations:
    """Let the verifier talk to itself in `sequences` chats at once, `length` tokens each or until `deadline`.

    deadline: as `time.monotonic` tells it. stepped: called after every token of all chats.
    """
    generator = torch.Generator(verifier.device).manual_seed(seed)
    speakers = [_Speaker(ANSWER_TEMPERATURES[i % len(ANSWER_TEMPERATURES)]) for i in range(sequences)]
    opening = torch.tensor([pieces.opening], device=verifier.device)
    cache = verifier.new_cache(1, opening.shape[1])
    states = verifier.forward(opening, cache, feature_layers)
    cache = cache.repeat(sequences, length)
    record = _Record(sequences)
    record.add(opening, states.last, states.features, verifier.logits(states.last), [False] * sequences)
    while cache.length < length and time.monotonic() < deadline:
        answers = [s.answering and not s.forced for s in speakers]
        fed = _next_tokens(record.logits, speakers, pieces, generator)
        states = verifier.forward(fed[:, None], cache, feature_layers)
        record.add(fed[:, None], states.last, states.features, verifier.logits(states.last), answers)
        stepped()
    return record.conversations([s.answer_temperature for s in speakers])


def _next_tokens(logits: Tensor, speakers: list[_Speaker], pieces: ChatPieces, generator: torch.Generator) -> Tensor:
    """i64[B]: the template's token where one is due, else a drawn one; a drawn end of turn hands over."""
    temperatures = [s.answer_temperature if s.answering else USER_TEMPERATURE for s in speakers]
    new = [row for row, s in enumerate(speakers) if s.turn_is_new and not s.forced]
    if new and pieces.ends:  # nobody says nothing
        logits[torch.tensor(new)[:, None], torch.tensor(sorted(pieces.ends))] = -torch.inf
    drawn = draw(logits, torch.tensor(temperatures, device=logits.device), generator).tolist()
    for row, speaker in enumerate(speakers):
        if speaker.forced:
            drawn[row] = speaker.forced.pop(0)
            continue
        speaker.turn_is_new = False
        if drawn[row] in pieces.ends:
            _hand_over(speaker, drawn[row], pieces)
    return torch.tensor(drawn, device=logits.device)


def _hand_over(speaker: _Speaker, end: int, pieces: ChatPieces) -> None:
    piece = pieces.to_user if speaker.answering else pieces.to_assistant
    speaker.forced = list(piece[1:] if piece and piece[0] == end else piece) if pieces.has_turns else []
    speaker.answering = pieces.has_turns and not speaker.answering
    speaker.turn_is_new = True


def draw(logits: Tensor, temperatures: Tensor, generator: torch.Generator) -> Tensor:
    """i64[B]: one token a row of fp32 logits `[B, V]` by inverse CDF; the likeliest where the temperature is 0."""
    greedy = logits.argmax(-1)
    warm = (temperatures > 0).nonzero()[:, 0]
    if not len(warm):
        return greedy
    cumulative = torch.softmax(logits[warm] / temperatures[warm, None], -1).cumsum(-1)
    uniform = torch.rand(len(warm), 1, generator=generator, device=logits.device)
    picked = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)[:, 0]
    greedy[warm] = picked.clamp(max=logits.shape[1] - 1)
    return greedy


class _Record:
    """Collects steps; a first step of one sequence stands for all of them."""

    def __init__(self, sequences: int) -> None:
        self._sequences = sequences
        self._steps: list[tuple[Tensor, ...]] = []
        self.logits = torch.empty(0)

    def add(self, tokens: Tensor, last: Tensor, features: Tensor, logits: Tensor, answers: list[bool]) -> None:
        width = tokens.shape[1]
        rows = (tokens.int(), last.half(), clamped_half(features), torch.logsumexp(logits, -1))
        flags = torch.tensor(answers)[:, None].expand(-1, width)
        self._steps.append((*(t.cpu().expand(self._sequences, *t.shape[1:]) for t in rows), flags))
        self.logits = logits[:, -1].expand(self._sequences, -1).clone()

    def conversations(self, temperatures: list[float]) -> Conversations:
        tokens, last, features, log_partition, answers = (torch.cat(part, 1) for part in zip(*self._steps, strict=True))
        return Conversations(tokens, answers, last, features, log_partition, torch.tensor(temperatures))


def clamped_half(x: Tensor) -> Tensor:
    """fp16, with what fp16 can't reach clamped to its largest number."""
    limit = torch.finfo(torch.float16).max
    return x.clamp(-limit, limit).half()
