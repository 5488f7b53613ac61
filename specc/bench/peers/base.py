"""What an adapter of another engine offers.

An adapter module has one function, `load(setup: PeerSetup) -> Peer`. It alone imports the engine.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Width = Literal["int8", "fp16", "fp32"]


@dataclass(frozen=True)
class PeerSetup:
    """What a peer is loaded from and for.

    model: the checkpoint, as `specc compile` names it. cache: folder for the peer's own conversions, kept from run to
    run. width: what most of the bundle's verifier is stored in; a peer takes the nearest it has. context: most tokens
    of prompt and answer. end_ids: ids that end an answer, none to ignore them.
    """

    model: str
    cache: Path
    width: Width
    threads: int
    context: int
    end_ids: tuple[int, ...]


@dataclass(frozen=True)
class PeerAnswer:
    """Ids of a greedy answer, an end id included; seconds to the first of them and from there to the last."""

    ids: tuple[int, ...]
    first_s: float
    rest_s: float


class Peer(Protocol):
    """A loaded engine."""

    @property
    def precision(self) -> str:
        """What it really runs in, for the report."""
        ...

    @property
    def modes(self) -> tuple[str, ...]:
        """Ways it decodes: "plain", and its own speculation."""
        ...

    def generate(self, mode: str, prompt: list[int], max_new_tokens: int) -> PeerAnswer:
        """Decode greedily after `prompt`, nothing kept from earlier prompts."""
        ...


def timed_answer(first: float, begin: float, end: float, ids: list[int]) -> PeerAnswer:
    """The answer of a run that began, gave its first token and ended at these times."""
    return PeerAnswer(tuple(ids), first - begin, end - first)
