"""Training text the verifier makes itself: it opens a chat, asks, and answers (as in Magpie, Xu et al. 2024)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specc.distill.chat_pieces import ChatPieces
from specc.distill.verifier import States, Verifier

USER_TEMPERATURES = (1.0, 0.8)  # of a question's first words and of the rest: many kinds, and sense
ANSWER_TEMPERATURES = (0.0, 0.6, 1.0)  # in turn: drafters meet greedy and sampled answers

_FIRST_WORDS = 4  # in tokens
_LOOP_WINDOW, _LOOP_GRAM = 48, 3


@dataclass
class _Speaker:
    """Where one conversation is: whose turn, what is fed next, what was said."""

    answer_temperature: float
    answering: bool = False
    turn_is_new: bool = True
    forced: list[int] = field(default_factory=list)
    said: list[int] = field(default_factory=list)


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
    opening: tuple[int, ...],
    feature_layers: tuple[int, ...],
    sequences: int,
    length: int,
    seed: int,
    deadline: float,
    stepped: Callable[[], None],
) -> Conversations:
    """Let the verifier talk to itself in `sequences` chats at once, `length` tokens each or until `deadline`.

    opening: what all chats begin with. A turn that runs into a loop is ended: all it would teach is the loop.
    deadline: as `time.monotonic` tells it. stepped: called after every token of all chats.
    """
    generator = torch.Generator(verifier.device).manual_seed(seed)
    speakers = [_Speaker(ANSWER_TEMPERATURES[i % len(ANSWER_TEMPERATURES)]) for i in range(sequences)]
    begun = torch.tensor([opening], device=verifier.device)
    cache = verifier.new_cache(1, begun.shape[1])
    states = verifier.forward(begun, cache, feature_layers)
    cache = cache.repeat(sequences, length)
    record = _Record(sequences, length, verifier, len(feature_layers))
    record.add(begun, states, verifier.logits(states.last), [False] * sequences)
    while cache.length < length and time.monotonic() < deadline:
        answers = [s.answering and not s.forced for s in speakers]
        fed = _next_tokens(record.logits, speakers, pieces, generator)
        states = verifier.forward(fed[:, None], cache, feature_layers)
        record.add(fed[:, None], states, verifier.logits(states.last), answers)
        stepped()
    return record.conversations([s.answer_temperature for s in speakers])


def _next_tokens(logits: Tensor, speakers: list[_Speaker], pieces: ChatPieces, generator: torch.Generator) -> Tensor:
    """i64[B]: the template's token where one is due, else a drawn one; a drawn end of turn hands over."""
    temperatures = [_temperature(speaker) for speaker in speakers]
    new = [row for row, s in enumerate(speakers) if s.turn_is_new and not s.forced]
    if new and pieces.ends:  # nobody says nothing
        logits[torch.tensor(new)[:, None], torch.tensor(sorted(pieces.ends))] = -torch.inf
    drawn = draw(logits, torch.tensor(temperatures, device=logits.device), generator).tolist()
    for row, speaker in enumerate(speakers):
        if speaker.forced:
            drawn[row] = speaker.forced.pop(0)
            continue
        speaker.turn_is_new = False
        speaker.said.append(drawn[row])
        if drawn[row] in pieces.ends or loops(speaker.said):
            _hand_over(speaker, drawn[row], pieces)
    return torch.tensor(drawn, device=logits.device)


def _temperature(speaker: _Speaker) -> float:
    if speaker.answering:
        return speaker.answer_temperature
    return USER_TEMPERATURES[len(speaker.said) >= _FIRST_WORDS]


def _hand_over(speaker: _Speaker, end: int, pieces: ChatPieces) -> None:
    piece = pieces.to_user if speaker.answering else pieces.to_assistant
    speaker.forced = list(piece[1:] if piece and piece[0] == end else piece) if pieces.has_turns else []
    speaker.answering = pieces.has_turns and not speaker.answering
    speaker.turn_is_new = True
    speaker.said = []


def loops(said: list[int]) -> bool:
    """Whether most of what was said last was said before in the same turn (looked at now and then)."""
    if len(said) < 2 * _LOOP_WINDOW or len(said) % (_LOOP_WINDOW // 4):
        return False
    grams = [tuple(said[i : i + _LOOP_GRAM]) for i in range(len(said) - _LOOP_GRAM + 1)]
    earlier, last = set(grams[:-_LOOP_WINDOW]), grams[-_LOOP_WINDOW:]
    return sum(gram in earlier for gram in last) > _LOOP_WINDOW // 2


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
    """What each step leaves, written in place: small tensors kept between large ones would scatter the heap.

    A first step of one sequence stands for all of them.
    """

    def __init__(self, sequences: int, length: int, verifier: Verifier, features: int) -> None:
        hidden = verifier.spec.hidden
        self._filled = 0
        self._tokens = torch.empty(sequences, length, dtype=torch.int32)
        self._answers = torch.empty(sequences, length, dtype=torch.bool)
        self._last = torch.empty(sequences, length, hidden, dtype=torch.float16)
        self._features = torch.empty(sequences, length, features * hidden, dtype=torch.float16)
        self._log_partition = torch.empty(sequences, length)
        self.logits = torch.empty(0)

    def add(self, tokens: Tensor, states: States, logits: Tensor, answers: list[bool]) -> None:
        new = slice(self._filled, self._filled + tokens.shape[1])
        self._tokens[:, new] = tokens
        self._answers[:, new] = torch.tensor(answers)[:, None]
        self._last[:, new] = states.last
        self._features[:, new] = clamped_half(states.features)
        self._log_partition[:, new] = torch.logsumexp(logits, -1)
        self._filled = new.stop
        self.logits = logits[:, -1].expand(len(self._tokens), -1).clone()

    def conversations(self, temperatures: list[float]) -> Conversations:
        whole = (self._tokens, self._answers, self._last, self._features, self._log_partition)
        tokens, answers, last, features, log_partition = (rows[:, : self._filled] for rows in whole)
        return Conversations(tokens, answers, last, features, log_partition, torch.tensor(temperatures))


def clamped_half(x: Tensor) -> Tensor:
    """fp16, with what fp16 can't reach clamped to its largest number."""
    limit = torch.finfo(torch.float16).max
    return x.clamp(-limit, limit).half()
