"""One generation as the caller holds it: an iterator of ids that knows its text and how it went."""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter

from specc_runtime.cache import Effort, ModelCache
from specc_runtime.decode import FinishReason, Job, decode
from specc_runtime.errors import RequestError
from specc_runtime.logprobs import TokenLogprobs
from specc_runtime.stats import Stats
from specc_runtime.text import TextCodec


class Generation(Iterator[int]):
    """Yields token ids as rounds finish. Everything else may be read at any time: it describes what came so far.

    Nothing is computed before the first id is asked for. A generation that is not wanted any more is closed, or simply
    dropped; either frees its engine for the next one.
    """

    def __init__(
        self, job: Job, drafters: Sequence[ModelCache], engine_lock: threading.Lock, codec: Callable[[], TextCodec]
    ) -> None:
        self._job = job
        self._codec = codec
        self._ids = _run(job, drafters, engine_lock)

    def __next__(self) -> int:
        return next(self._ids)

    def finish(self) -> "Generation":
        """Generate to the end, and return self.

        Where the engine was loaded with `loop` programs and one serves the request, all rounds are one call.
        """
        self._job.unwatched = True
        for _ in self._ids:
            pass
        return self

    def close(self) -> None:
        """Stop here and free the engine."""
        self._ids.close()

    @property
    def ids(self) -> list[int]:
        """The ids given out so far; an EOS or stop id that ended the text is the last."""
        return list(self._job.output.ids)

    @property
    def text(self) -> str:
        """Their text, without special tokens, cut right before a stop string.

        Raises TokenizerError: the bundle has no tokenizer.
        """
        text = self._job.output.text
        return self._codec().decode(self.ids) if text is None else text

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the text ended: "eos", "stop" (string or id) or "length" (max_new_tokens, context); None: it has not."""
        return self._job.finish_reason

    @property
    def logprobs(self) -> list[TokenLogprobs] | None:
        """One entry for each of `ids`; None if the request asked for none."""
        return self._job.logprobs[: len(self.ids)] if self._job.params.logprobs is not None else None

    @property
    def stats(self) -> Stats:
        """Counts and times so far."""
        return self._job.stats

    @property
    def seed(self) -> int:
        """The seed that was used: the request's, or the one drawn for it. With it the same request repeats."""
        return self._job.seed

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return self._job.history.prompt_length


def _run(job: Job, drafters: Sequence[ModelCache], engine_lock: threading.Lock) -> Generator[int, None, None]:
    """The ids of `job`, one by one, while holding the engine. No reference to the Generation: dropping it ends this."""
    if not engine_lock.acquire(blocking=False):
        raise RequestError("another generation is running on this engine: finish it, or close() it, before the next")
    try:
        for cache in (job.verifier, *drafters):
            cache.effort = Effort()
        rounds, busy_s = decode(job), 0.0
        while job.finish_reason is None:
            started = perf_counter()
            ids = next(rounds, [])
            busy_s += perf_counter() - started
            _account(job, drafters, busy_s)
            yield from ids
    finally:
        engine_lock.release()


def _account(job: Job, drafters: Sequence[ModelCache], busy_s: float) -> None:
    """Where the time went, in all and in the round just ended: in the engine by purpose, and the rest in the host."""
    stats, verifier, last = job.stats, job.verifier.effort, job.stats.last_round
    refilled, refill_s, draft_s = 0, 0.0, 0.0
    for cache in drafters:
        refilled += cache.effort.prefilled_tokens
        refill_s += cache.effort.prefill_s
        draft_s += cache.effort.step_s
    host_s = busy_s - verifier.prefill_s - verifier.step_s - refill_s - draft_s
    if last is not None:
        last.draft_s, last.verify_s = draft_s - stats.draft_s, verifier.step_s - stats.verify_s
        last.host_s = host_s - stats.host_s
        last.prefill_s = verifier.prefill_s + stats.refill_s - stats.prefill_s
        last.refill_s = refill_s - stats.refill_s
        last.prefilled = verifier.prefilled_tokens - stats.verifier_prefilled_tokens
        last.refilled = refilled - stats.drafter_prefilled_tokens
    stats.verifier_prefilled_tokens, stats.drafter_prefilled_tokens = verifier.prefilled_tokens, refilled
    stats.prefill_s, stats.refill_s = verifier.prefill_s + refill_s, refill_s
    stats.verify_s, stats.draft_s, stats.host_s = verifier.step_s, draft_s, host_s
