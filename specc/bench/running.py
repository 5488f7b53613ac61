"""All sides answer the same prompts in turn: what slows the machine slows them alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specc.bench.conversations import Conversations
from specc.bench.options import BenchOptions
from specc.bench.peers.workers import PeerWorker
from specc.bench.questions import Question
from specc.bench.samples import PLAIN, SPECULATIVE, Sample, Trial, sampled
from specc_runtime import Engine
from specc_runtime.errors import ContextError

WARM_UP_TOKENS = 8


@dataclass
class _Answers:
    """One side's answers to the turns of one question."""

    prompts: list[list[int]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


class Runner:
    """Runs questions on a loaded bundle, and on peers.

    A question's turns are decoded one after the other by one side, so that the second turn finds the first in its
    caches; then the caches are forgotten and the other side has its turn. Who begins alternates. Peers are given the
    prompts that plain decoding had; where engine and prompt are the same, so is the work.
    """

    def __init__(
        self, engine: Engine, options: BenchOptions, conversations: Conversations, peers: Sequence[PeerWorker] = ()
    ) -> None:
        self._engine = engine
        self._options = options
        self._conversations = conversations
        self._peers = peers
        self._asked = 0
        self.skipped: list[str] = []  # questions that do not fit the context

    def warm_up(self, question: Question) -> None:
        """Let every side allocate what it needs, untimed."""
        short = replace(self._options.sampling, max_new_tokens=WARM_UP_TOKENS, min_new_tokens=0)
        prompt = self._conversations.prompt(question.turns[:1], [])
        prompt = prompt[-max(1, self._engine.manifest.context // 2) :]
        for way in (self._way(SPECULATIVE), self._way(PLAIN)):
            self._engine.forget()
            self._engine.generate(prompt, short, **way).finish()
        for peer in self._peers:
            for mode in peer.modes:
                peer.generate(mode, prompt, WARM_UP_TOKENS)

    def ask(self, question: Question) -> Iterator[Trial]:
        """The trials of one question, a turn each; none if a prompt does not fit the context."""
        first, second = (SPECULATIVE, PLAIN) if self._asked % 2 == 0 else (PLAIN, SPECULATIVE)
        self._asked += 1
        try:
            answers = {side: self._answer(question, side) for side in (first, second)}
        except ContextError:
            self.skipped.append(question.id)
            return
        plain = answers[PLAIN]
        for turn, prompt in enumerate(plain.prompts):
            samples = {side: answers[side].samples[turn] for side in (SPECULATIVE, PLAIN)}
            samples |= self._peers_answers(prompt)
            yield Trial(question.id, question.category, turn + 1, tuple(prompt), samples)

    def _answer(self, question: Question, side: str) -> _Answers:
        self._engine.forget()
        done = _Answers()
        for turn in range(min(self._options.turns, len(question.turns))):
            ids = [sample.ids for sample in done.samples]
            prompt = self._conversations.prompt(question.turns[: turn + 1], ids)
            if len(prompt) + self._options.sampling.max_new_tokens > self._engine.manifest.context:
                raise ContextError(f"question {question.id} has a prompt of {len(prompt)} tokens")
            done.prompts.append(prompt)
            done.samples.append(sampled(self._engine.generate(prompt, self._options.sampling, **self._way(side))))
        return done

    def _way(self, side: str) -> Mapping[str, Any]:
        if side == PLAIN:
            return {"plain": True}
        return {"drafter": self._options.drafter, "gamma": self._options.gamma}

    def _peers_answers(self, prompt: list[int]) -> dict[str, Sample]:
        """Every peer's answer in each of its modes; who begins alternates."""
        runs = [(peer, mode) for peer in self._peers for mode in peer.modes]
        start = self._asked % len(runs) if runs else 0
        tokens = self._options.sampling.max_new_tokens
        return {peer.side(mode): peer.generate(mode, prompt, tokens) for peer, mode in [*runs[start:], *runs[:start]]}
