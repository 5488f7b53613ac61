"""The decoding loop: draft, verify, accept, emit. Plain decoding is the same loop with nothing drafted.

n is the number of committed tokens, prompt included. Between rounds the verifier's cache holds the first n - 1 of
them: a round feeds the last committed token and the drafted ones at rows n - 1 ..., and row i of the logits is the law
of the token after i drafted ones. What was rejected is overwritten by the next round.

No round can pass an end: gamma is cut so that the round's last token is at most the request's last, the context's last
or the next full verification point. So for every gamma the text reaches exactly the last position of the context.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

import numpy as np

from specc_runtime.accept import accept_block, accept_greedy, accept_tokenwise
from specc_runtime.cache import ModelCache
from specc_runtime.controller import Controller
from specc_runtime.drafting.base import NO_DRAFT, Draft, Drafter
from specc_runtime.engines.base import Feed, Logits
from specc_runtime.fused import FusedLoop, FusedRound
from specc_runtime.history import TokenHistory
from specc_runtime.logprobs import TokenLogprobs, token_logprobs
from specc_runtime.output import Output
from specc_runtime.params import SamplingParams
from specc_runtime.rng import RoundUniforms, UniformStream, no_uniforms
from specc_runtime.stats import Stats
from specc_runtime.stop import cut_at
from specc_runtime.warp import Warper

FinishReason = Literal["length", "eos", "stop"]


@dataclass
class Job:
    """One sample of one request: what it asks for, what it uses, and how far it has come.

    eos_ids, end_ids: the model's EOS ids; every id that ends this text. context: most committed tokens.
    max_gamma: most tokens a round may draft. fused: in-graph rounds that serve this request, by gamma.
    loop: the in-graph program for all its rounds, used once it is `unwatched`: nobody waits for single rounds.
    scratch: float32 `[V]`, for acceptance to work in. full_precision: feeds the verifier at full verification points,
    where its own caches are too coarse to judge themselves.
    """

    params: SamplingParams
    seed: int
    sample: int
    history: TokenHistory
    verifier: ModelCache
    drafter: Drafter
    warper: Warper
    controller: Controller
    output: Output
    eos_ids: frozenset[int]
    context: int
    token_count: int
    max_gamma: int
    scratch: Logits
    fused: Mapping[int, FusedRound] = field(default_factory=dict)
    loop: FusedLoop | None = None
    unwatched: bool = False
    full_precision: Feed | None = None
    stats: Stats = field(default_factory=Stats)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        self.end_ids = self.params.end_ids(self.eos_ids)
        self.greedy = self.params.greedy
        self._stream = UniformStream(self.seed, self.sample)

    @property
    def room(self) -> int:
        """Tokens that may still be committed."""
        return min(self.params.max_new_tokens - self.history.generated, self.context - len(self.history))

    def uniforms(self, gamma: int) -> RoundUniforms:
        """The uniforms of the round that starts now; zeros for a greedy request, which draws nothing."""
        return no_uniforms(gamma) if self.greedy else self._stream.round(len(self.history), gamma)


@dataclass(frozen=True)
class Round:
    """What one round emits: the accepted ones of `drafted` tokens, then one more. logits: row i is tokens[i]'s."""

    tokens: list[int]
    drafted: int
    logits: Logits | None


def decode(job: Job) -> Iterator[list[int]]:
    """The ids to give out, round by round, until `job.finish_reason` is set."""
    if job.room <= 0:
        job.finish_reason = "length"
        return
    yield commit(job, accept(job, NO_DRAFT, prefill(job), job.uniforms(0)))
    while job.finish_reason is None:
        for done in rest(job) or [next_round(job)]:
            yield commit(job, done)


def rest(job: Job) -> list[Round]:
    """All rounds to come, if nobody watches and a program runs them; else none.

    Each drafts what `choose_gamma` says, which ends alone make less than the loop's gamma.
    """
    if job.loop is None or not job.unwatched or not (reach := job.loop.reach(job.history, job.room)):
        return []
    rounds, end, done = job.loop(job.history, reach, job.seed, job.sample), len(job.history) + reach, len(job.history)
    made = []
    for tokens in rounds:
        made.append(Round(tokens, min(job.loop.gamma, end - done - 1), None))
        done += len(tokens)
    return made


def next_round(job: Job) -> Round:
    """Draft, verify and accept once; at a full verification point, one plain step from a cache made anew."""
    n, ids = len(job.history), job.history.ids
    if job.params.verify_every and n % job.params.verify_every == 0:
        return accept(job, NO_DRAFT, verify_from_scratch(job), job.uniforms(0))
    gamma = choose_gamma(job, n)
    uniforms = job.uniforms(gamma)
    fused = job.fused.get(gamma)
    if fused is not None and fused.serves(job.history):
        return Round(fused(job.history, uniforms), gamma, None)
    draft = job.drafter.propose(job.history, gamma, uniforms.draft) if gamma else NO_DRAFT
    fed = np.concatenate((ids[-1:], draft.ids)) if len(draft.ids) else ids[-1:]
    logits = job.verifier.feed(fed, n - 1, len(fed))
    return accept(job, draft, logits, uniforms)


def prefill(job: Job) -> Logits:
    """Feed what the verifier's cache lacks of the prompt; logits `[1, V]` after its last token."""
    prompt = job.history.ids
    job.verifier.begin()
    return job.verifier.extend(prompt, min(job.verifier.agreed(prompt), len(prompt) - 1), rows=1)


def choose_gamma(job: Job, n: int) -> int:
    """Tokens to draft now: the controller's choice, cut to what the drafter, the engine and the next end allow."""
    every = job.params.verify_every
    ends = job.room if not every else min(job.room, every - n % every)
    return max(0, min(job.controller.choose(job.stats), job.max_gamma, job.drafter.limit(n), ends - 1))


def accept(job: Job, draft: Draft, logits: Logits, uniforms: RoundUniforms) -> Round:
    """Decide by the request's laws how much of `draft` stands, and draw the token after it."""
    drafted = draft.ids.tolist()
    if job.greedy:
        accepted = accept_greedy(drafted, job.warper.greedy(logits, job.history, drafted))
    else:
        p = job.warper.laws(logits, job.history, drafted)
        q = draft.laws if draft.law_ids is None or draft.laws is None else (draft.law_ids, draft.laws)
        rule = accept_block if job.params.acceptance == "block" else accept_tokenwise
        # A draft shorter than gamma uses only as many uniforms as it needs.
        accepted = rule(drafted, p, q, uniforms.accept, scratch=job.scratch)
    return Round([*drafted[: accepted.count], accepted.token], len(drafted), logits)


def verify_from_scratch(job: Job) -> Logits:
    """Full verification point: prefill the whole text anew, compare, go on from the new cache; logits `[1, V]`."""
    ids = job.history.ids
    incremental = job.verifier.feed(ids[-1:], len(ids) - 1, 1).copy()
    started = perf_counter()
    logits = job.verifier.extend(ids, 0, rows=1, feed=job.full_precision)
    job.stats.record_verification(float(np.abs(logits - incremental).max()), perf_counter() - started)
    return logits


def commit(job: Job, done: Round) -> list[int]:
    """Make a round's tokens final, up to the one that ends the text; the ids that may be given out."""
    end = cut_at(done.tokens, job.end_ids) if job.end_ids else None
    offered = done.tokens if end is None else done.tokens[: end + 1]
    given = job.output.add(offered)
    tokens = offered[: given.taken]
    job.history.extend(tokens)
    if job.params.logprobs is not None and done.logits is not None:
        job.logprobs += token_logprobs(done.logits, tokens, token_count=job.token_count, top=job.params.logprobs)
    job.stats.record_round(done.drafted, min(len(done.tokens) - 1, len(tokens)), len(tokens))
    if given.stopped:
        return finish(job, "stop", given.ids)
    if end is not None:
        eos = offered[-1] in job.eos_ids and not job.params.ignore_eos
        return finish(job, "eos" if eos else "stop", given.ids)
    return finish(job, "length", given.ids) if job.room <= 0 else given.ids


def finish(job: Job, reason: FinishReason, released: list[int]) -> list[int]:
    """The text ends here: `released` and what was held back, unless that turns out to hold a stop string."""
    rest = job.output.finish()
    job.finish_reason = "stop" if rest.stopped else reason
    job.stats.emitted_tokens = len(job.output.ids)
    return released + rest.ids
