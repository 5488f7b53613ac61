"""What the host does in a round, timed: warping, draws, acceptance and uniforms, against plain numpy forms of the same.

    python benchmarks/host_accept.py [--vocab 49152] [--gamma 4] [--round-ms 15.5]

CPU time of one thread, so other load on the machine hardly counts. Logits are synthetic, with the tail of a small
language model's (probability of rank r about r ** -1.6). Shipped and plain forms take turns.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from specc_runtime.accept import accept_block, accept_tokenwise, draw
from specc_runtime.history import TokenHistory
from specc_runtime.params import SamplingParams
from specc_runtime.rng import round_uniforms
from specc_runtime.warp import Warper

CALLS = 400
BURST = 40  # calls of one form before the other takes its turn
ROUNDS = 8  # different inputs: few enough to stay in the cache, where a verifier leaves its logits


@dataclass(frozen=True)
class Case:
    """One line of the table: calls of the shipped form, and of the same by obvious numpy or None, by round."""

    name: str
    shipped: Callable[[int], object]
    plain: Callable[[int], object] | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the host's part of a round.")
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--round-ms", type=float, default=15.5, help="length of a whole round, for the last column")
    arguments = parser.parse_args()
    print(f"vocabulary {arguments.vocab}, gamma {arguments.gamma}, medians of {CALLS} calls")
    print(f"{'':34}{'us':>8}{'plain us':>10}{'ratio':>7}{'of round':>10}")
    for case in cases(arguments.vocab, arguments.gamma):
        shipped, plain = measure(case)
        versus = f"{plain:10.0f}{plain / shipped:7.1f}" if plain else " " * 17
        print(f"{case.name:34}{shipped:8.1f}{versus}{shipped / arguments.round_ms / 10:9.2f}%")


def measure(case: Case) -> tuple[float, float | None]:
    """Median microseconds of the shipped and of the plain form, in turns of `BURST` calls."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(CALLS // BURST):
        for form, taken in zip((case.shipped, case.plain), times, strict=True):
            if form is None:
                continue
            for call in range(BURST):
                start = time.thread_time()
                form(call % ROUNDS)
                taken.append(1e6 * (time.thread_time() - start))
    return statistics.median(times[0]), statistics.median(times[1]) if times[1] else None


def cases(vocab: int, gamma: int) -> list[Case]:
    rng = np.random.default_rng(0)
    logits = 1.6 * rng.exponential(size=(ROUNDS, gamma + 1, vocab)).astype(np.float32)
    history = TokenHistory(rng.integers(0, vocab, 300), vocab)
    return [*warping(logits, history, gamma), *accepting(logits, history, rng, gamma)]


def warping(logits: np.ndarray, history: TokenHistory, gamma: int) -> list[Case]:
    drafted = list(range(gamma))

    def case(name: str, plain: Callable[[int], object] | None = None, **options: float) -> Case:
        warper = make_warper(logits.shape[-1], gamma, **options)
        return Case(name, lambda i: warper.laws(logits[i], history, drafted), plain)

    greedy = make_warper(logits.shape[-1], gamma)
    return [
        Case("greedy ids", lambda i: greedy.greedy(logits[i], history, drafted), lambda i: logits[i].argmax(axis=1)),
        case("laws T=1", lambda i: plain_softmax(logits[i]), temperature=1),
        case(
            "laws T=.8 top_p=.9", lambda i: plain_top_p(plain_softmax(logits[i] / 0.8), 0.9), temperature=0.8, top_p=0.9
        ),
        case("laws T=.8 top_k=50", lambda i: plain_top_k(logits[i] / 0.8, 50), temperature=0.8, top_k=50),
        case("laws T=.8 min_p=.05", temperature=0.8, min_p=0.05),
        case("laws T=1 repetition_penalty=1.1", temperature=1, repetition_penalty=1.1),
    ]


def accepting(logits: np.ndarray, history: TokenHistory, rng: np.random.Generator, gamma: int) -> list[Case]:
    vocab = logits.shape[-1]
    warper = make_warper(vocab, gamma, temperature=1)
    laws = [warper.laws(row, history, list(range(gamma))).copy() for row in logits]
    noisy = logits + 0.8 * rng.standard_normal(logits.shape).astype(np.float32)
    drafts = [warper.laws(row, history, list(range(gamma)))[:gamma].copy() for row in noisy]
    ids = np.sort(rng.choice(vocab, vocab // 6, replace=False))
    trimmed = [np.ascontiguousarray(q[:, ids] / q[:, ids].sum(axis=1, keepdims=True)) for q in drafts]
    u = rng.random((ROUNDS, 2 * gamma + 1))
    drafted = [[draw(drafts[i][j], u[i, j]) for j in range(gamma)] for i in range(ROUNDS)]
    few = [[int(ids[draw(trimmed[i][j], u[i, j])]) for j in range(gamma)] for i in range(ROUNDS)]
    scratch = np.empty(vocab, dtype=np.float32)

    def accept(i: int, rule: Callable[..., object], tokens: list[list[int]], q: object) -> object:
        return rule(tokens[i], laws[i], q, u[i, gamma:], scratch=scratch)

    return [
        Case("uniforms of a round", lambda i: round_uniforms(1, 0, i, gamma)),
        Case(
            "draw",
            lambda i: draw(laws[i][0], u[i, 0]),
            lambda i: np.searchsorted(np.cumsum(laws[i][0]), u[i, 0]),
        ),
        Case("accept_block, dense q", lambda i: accept(i, accept_block, drafted, drafts[i])),
        Case("accept_block, trimmed q", lambda i: accept(i, accept_block, few, (ids, trimmed[i]))),
        Case("accept_block, one-hot q", lambda i: accept(i, accept_block, drafted, None)),
        Case("accept_tokenwise, dense q", lambda i: accept(i, accept_tokenwise, drafted, drafts[i])),
    ]


def make_warper(vocab: int, gamma: int, **options: float) -> Warper:
    params = SamplingParams(**options)  # type: ignore[arg-type]
    return Warper(params, vocab_rows=vocab, token_count=vocab, eos_ids=(), max_rows=gamma + 1)


def plain_softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def plain_top_p(laws: np.ndarray, top_p: float) -> np.ndarray:
    descending = np.sort(laws, axis=1)[:, ::-1]
    last = (np.cumsum(descending, axis=1) < top_p).sum(axis=1)
    kept = np.where(laws >= descending[np.arange(len(laws)), last][:, None], laws, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def plain_top_k(logits: np.ndarray, k: int) -> np.ndarray:
    kth = np.partition(logits, -k, axis=1)[:, -k]
    return plain_softmax(np.where(logits >= kth[:, None], logits, -np.inf))


if __name__ == "__main__":
    main()
