"""First phase: text with the verifier's states at every token, as shards in the working folder."""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from specc.distill.chat_pieces import ChatPieces
from specc.distill.conversations import Conversations, clamped_half, converse
from specc.distill.options import DistillOptions
from specc.distill.verifier import Verifier
from specc.distill.working_folder import WorkingFolder
from specc.errors import OptionError

PHASE = "text"
FROM_FILE = -1.0
"""The temperature of text nobody drew."""

_SHARDS = "text/*.safetensors"

_CACHE_BYTES = 2_500_000_000
"""Caches of conversations made at once. A large batch makes text several times faster; a large model's must fit."""


class TextPhase:
    """Makes shards until its share of the time is spent; goes on after the last whole one when run again."""

    def __init__(
        self,
        options: DistillOptions,
        verifier: Verifier,
        pieces: ChatPieces,
        feature_layers: tuple[int, ...],
        folder: WorkingFolder,
    ) -> None:
        self._options, self._verifier, self._pieces, self._folder = options, verifier, pieces, folder
        self._feature_layers = feature_layers
        self._lengths = [min(tokens, verifier.spec.context) for tokens in options.recipe.tokens]

    def run(self, tokenizer: Tokenizer, elapsed: Callable[[float], None]) -> None:
        """Read the text files, then converse. elapsed: told of the phase's seconds so far."""
        recipe, folder = self._options.recipe, self._folder
        budget = self._options.minutes * 60 * recipe.text_share
        spent, started = folder.spent(PHASE), time.monotonic()
        self._read_files(tokenizer)
        seen = set(self._questions())
        number = len(folder.names("text/chat-*.safetensors"))
        while (left := budget - spent - (time.monotonic() - started)) > 0:
            length = self._lengths[number % len(self._lengths)]
            made = converse(
                self._verifier,
                self._pieces,
                self._pieces.openings[number % len(self._pieces.openings)],
                self._feature_layers,
                self._at_once(length),
                length,
                zlib.crc32(f"{self._options.seed}/{number}".encode()),
                time.monotonic() + left,
                lambda: elapsed(spent + time.monotonic() - started),
            )
            if number == 0 or made.tokens.shape[1] > length // 2:  # what the deadline leaves may be a few tokens
                self._write(f"text/chat-{number:05d}.safetensors", self._unseen(made, seen))
            folder.spend(PHASE, spent + time.monotonic() - started)
            number += 1

    def _at_once(self, length: int) -> int:
        return max(1, min(self._options.recipe.conversations, _CACHE_BYTES // self._verifier.cache_bytes(length)))

    def _unseen(self, made: Conversations, seen: set[int]) -> Conversations:
        """Without the conversations that begin with a question asked before."""
        keep = []
        for row, question in enumerate(questions(made.tokens, made.answers, self._pieces.opening)):
            if question not in seen:
                keep.append(row)
            seen.add(question)
        return _rows(made, torch.tensor(keep, dtype=torch.long))

    def _questions(self) -> Iterator[int]:
        for name in self._folder.names(_SHARDS):
            tensors, _ = self._folder.read_tensors(name) or ({}, {})
            yield from questions(tensors["tokens"], tensors["answers"], self._pieces.opening)

    def _read_files(self, tokenizer: Tokenizer) -> None:
        length = max(self._lengths)
        for number, path in enumerate(self._options.text):
            name = f"text/file-{number:05d}.safetensors"
            if (self._folder.root / name).exists():
                continue
            ids = tokenizer.encode(_read(path), add_special_tokens=False).ids
            chunks = [ids[i : i + length] for i in range(0, len(ids), length)]
            whole = [chunk for chunk in chunks if len(chunk) == length] or [ids]
            self._write(name, _joined(self._states(torch.tensor(part)) for part in _batches(whole, 4)))

    def _states(self, tokens: Tensor) -> Conversations:
        verifier = self._verifier
        tokens = tokens.to(verifier.device)
        states = verifier.forward(tokens, verifier.new_cache(*tokens.shape), self._feature_layers)
        partition = torch.logsumexp(verifier.logits(states.last), -1)
        made = (tokens.int(), torch.ones_like(tokens, dtype=torch.bool), states.last.half())
        rest = (clamped_half(states.features), partition, torch.full((len(tokens),), FROM_FILE))
        return Conversations(*(t.cpu() for t in (*made, *rest)))

    def _write(self, name: str, made: Conversations) -> None:
        self._folder.write_tensors(name, {f.name: getattr(made, f.name) for f in fields(made)})


def questions(tokens: Tensor, answers: Tensor, opening: int) -> list[int]:
    """A number for what each conversation begins with after the template's opening, up to the first answer."""
    numbers = []
    for row, said in zip(tokens, answers, strict=True):
        first = int(said.int().argmax()) if bool(said.any()) else len(row)
        numbers.append(zlib.crc32(row[opening : max(first, opening + 1)].numpy().tobytes()))
    return numbers


def read_shards(folder: WorkingFolder) -> list[Conversations]:
    """All text made so far, mapped rather than copied."""
    shards = []
    for name in folder.names(_SHARDS):
        tensors, _ = folder.read_tensors(name) or ({}, {})
        shards.append(Conversations(**tensors))
    return shards


def _rows(made: Conversations, rows: Tensor) -> Conversations:
    return Conversations(*(getattr(made, f.name)[rows] for f in fields(made)))


def _joined(parts: Iterable[Conversations]) -> Conversations:
    listed = list(parts)
    return Conversations(*(torch.cat([getattr(part, f.name) for part in listed]) for f in fields(Conversations)))


def _batches(rows: Sequence[list[int]], size: int) -> Iterator[Sequence[list[int]]]:
    return (rows[i : i + size] for i in range(0, len(rows), size))


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"text: {path}: {error}; give UTF-8 text files") from error
    if not text.strip():
        raise OptionError(f"text: {path}: is empty; give text to train on")
    return text
