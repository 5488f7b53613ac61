"""Models without an engine: programs in numpy whose cache rows hold the tokens themselves.

Reading a row that nothing was written to fails, and the law of a model with memory changes with every token it reads,
so a hole or a stale row shows at once.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specc_runtime.accept import accept_block, draw
from specc_runtime.bundle import Bundle
from specc_runtime.engine import Engine
from specc_runtime.engines.base import Feed, Loop, RoundSampling
from specc_runtime.manifest import DrafterInfo, Manifest, ModelInfo, Program, TokenizerInfo
from specc_runtime.params import OPTIONS

LogitsOf = Callable[[NDArray[np.int64]], NDArray[np.float32]]
"""All tokens up to and with the row's own, int64 [n] -> logits of the next one, float32 [V]."""

UNWRITTEN = -1


class TablePrograms:
    """`Programs` over one logits function a model. calls: (owner, width, position) of each feed, in order."""

    def __init__(
        self,
        models: Mapping[str, LogitsOf],
        *,
        rows: Mapping[str, int],
        max_width: int,
        rounds: tuple[Program, ...] = (),
    ) -> None:
        self.loops: tuple[Loop, ...] = ()
        self.rounds = rounds
        self.calls: list[tuple[str, int, int]] = []
        self._models = models
        self._max_width = max_width
        self._caches = {owner: np.full(rows[owner], UNWRITTEN) for owner in models}

    def verify(self, tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        return self._feed("verifier", tokens, position, rows)

    def draft(self, drafter: str, tokens: NDArray[np.int64], position: int) -> NDArray[np.float32]:
        return self._feed(drafter, tokens, position, 1)[0]

    def catchup(self, drafter: str, tokens: NDArray[np.int64], position: int) -> None:
        self._feed(drafter, tokens, position, 0)

    def round(
        self,
        program: Program,
        tokens: NDArray[np.int64],
        position: int,
        uniforms: NDArray[np.float32],
        sampling: RoundSampling,
    ) -> NDArray[np.int64]:
        """A round at temperature 1 without truncation, as a graph would do it."""
        assert (sampling.top_k, sampling.top_p, sampling.min_p) == (0, 1.0, 0.0)
        assert program.drafter is not None
        gamma = len(uniforms) // 2
        drafted: list[int] = []
        laws = []
        fed, at = tokens, position - self._lag(program.drafter)
        for u in uniforms[:gamma]:
            laws.append(_law(self._feed(program.drafter, fed, at, 1), sampling.temperature)[0])
            drafted.append(draw(laws[-1], float(u)))
            at += len(fed)
            fed = np.array(drafted[-1:])
        verified, end = np.append(tokens[-1:], drafted), position + len(tokens) - 1
        p = _law(self._feed("verifier", verified, end, gamma + 1), sampling.temperature)
        accepted = accept_block(drafted, p, np.stack(laws), uniforms[gamma:].astype(np.float64))
        return np.array([*drafted[: accepted.count], accepted.token])

    def full_precision(self) -> Feed | None:
        return None

    def options(self, owner: str) -> frozenset[str]:
        return OPTIONS

    def max_width(self, owner: str) -> int:
        return self._max_width

    def reset(self) -> None:
        for cache in self._caches.values():
            cache.fill(UNWRITTEN)

    def _feed(self, owner: str, tokens: NDArray[np.int64], position: int, rows: int) -> NDArray[np.float32]:
        self.calls.append((owner, len(tokens), position))
        cache, end = self._caches[owner], position + len(tokens)
        assert 0 < len(tokens) <= self._max_width, f"{len(tokens)} tokens fed at once"
        assert end <= len(cache), f"rows up to {end} of {len(cache)} written"
        cache[position:end] = tokens
        cache[end:] = UNWRITTEN  # whoever reads beyond what was just written reads garbage
        assert (cache[:end] != UNWRITTEN).all(), "a cache row is read that was never written"
        logits = [self._logits(owner, cache[: end - back]) for back in range(rows - 1, -1, -1)]
        return np.stack(logits) if logits else np.zeros((0, 0), np.float32)

    def _lag(self, drafter: str) -> int:
        """Rows by which a drafter's token comes before its own place in the text."""
        return 0

    def _logits(self, owner: str, seen: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._models[owner](seen)


def markov(table: NDArray[np.floating]) -> LogitsOf:
    """The next token depends on the last one: its law is row `last` of `table` `[V, V]`."""
    with np.errstate(divide="ignore"):
        logits = np.log(table).astype(np.float32)
    return lambda tokens: logits[tokens[-1]]


def with_memory(vocabulary: int, seed: int, sharpness: float = 1.5, columns: Sequence[int] | None = None) -> LogitsOf:
    """Logits that change with every token before, its place included. columns: ids of a trimmed head."""
    random = np.random.default_rng(seed)
    embedding = random.normal(size=(vocabulary, vocabulary))
    places = random.normal(size=997)

    def logits_of(tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        sums = (embedding[tokens] * places[: len(tokens), None]).sum(axis=0) + 2 * embedding[tokens[-1]]
        logits = (sharpness * np.sin(sums)).astype(np.float32)
        return logits if columns is None else logits[list(columns)]

    return logits_of


def blend(one: LogitsOf, other: LogitsOf, share: float) -> LogitsOf:
    """A drafter that knows something: `share` of `one`'s logits, the rest of `other`'s."""
    return lambda tokens: np.float32(share) * one(tokens) + np.float32(1 - share) * other(tokens)


def table_engine(
    verifier: LogitsOf,
    drafter: LogitsOf | None = None,
    *,
    vocabulary: int,
    context: int = 64,
    slack: int = 8,
    max_width: int = 16,
    drafter_context: int | None = None,
    eos_ids: tuple[int, ...] = (),
    head_ids: Path | None = None,
    rounds: Sequence[int] = (),
    programs: type[TablePrograms] = TablePrograms,
    features: bool = False,
) -> tuple[Engine, TablePrograms]:
    """An engine over these models, drafter "draft" if one is given; rounds: gammas with an in-graph round.

    features: whether the drafter reads them, in `programs` that keep them.
    """
    drafter_rows = min(context, drafter_context or context)
    drafters: dict[str, DrafterInfo] = {"ngram": DrafterInfo("ngram")}
    models = {"verifier": verifier}
    if drafter is not None:
        info = _model(vocabulary, drafter_rows)
        head_rows = None if head_ids is None else len(np.load(head_ids))
        name = None if head_ids is None else head_ids.name
        own = DrafterInfo("model", model=info, head_rows=head_rows, head_ids=name, features=features)
        drafters = {"draft": own, **drafters}
        models["draft"] = drafter
    manifest = Manifest(
        specc_version="0", target="cpu", backend="table", context=context, slack=slack, gammas=(4,), gamma=4,
        verifier=_model(vocabulary, context), drafters=drafters, topologies={}, programs=(), precision=(), files={},
        tokenizer=TokenizerInfo("tokenizer.json", token_count=vocabulary, eos_ids=eos_ids),
    )  # fmt: skip
    rows = {"verifier": context + slack, "draft": drafter_rows + slack}
    table = programs(models, rows=rows, max_width=max_width, rounds=tuple(map(_round, rounds)))
    return Engine(Bundle(Path() if head_ids is None else head_ids.parent, manifest), table), table


def _model(vocabulary: int, context: int) -> ModelInfo:
    return ModelInfo("table", "table", 0, 0, vocab_rows=vocabulary, context=context, parameters=0)


def _round(gamma: int) -> Program:
    return Program(
        f"round.{gamma}", "round", "none", (), (), width=gamma + 1, max_width=gamma + 1, drafter="draft",
        accept="graph", options=("greedy", "temperature"),
    )  # fmt: skip


def _law(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    if temperature == 0:
        return np.eye(logits.shape[1], dtype=np.float32)[logits.argmax(axis=1)]
    weights = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
