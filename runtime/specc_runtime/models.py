"""The models of a loaded bundle: their caches, and what is built around them for one request."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from specc_runtime.acceptance_estimate import AcceptanceEstimate
from specc_runtime.bundle import Bundle
from specc_runtime.cache import ModelCache
from specc_runtime.controller import AdaptiveGamma
from specc_runtime.cost_estimate import CostEstimate
from specc_runtime.drafting.base import Drafter
from specc_runtime.drafting.features import FeatureDrafter
from specc_runtime.drafting.model import ModelDrafter
from specc_runtime.drafting.ngram import NgramDrafter
from specc_runtime.engines.base import Feed, Logits, Programs, Tokens
from specc_runtime.errors import IntegrityError, OptionError
from specc_runtime.fused import FusedLoop, FusedRound
from specc_runtime.manifest import VERIFIER
from specc_runtime.params import SamplingParams
from specc_runtime.selection import check_served, coarse_caches, find_round, runs_rounds
from specc_runtime.speculation import round_costs
from specc_runtime.warp import Warper

NGRAM = "ngram"  # always there: it needs no program of its own
GUESSED_ACCEPTANCE = 0.6  # of each position, for drafters nobody measured
GUESSED_COST = 0.15  # plain steps a drafted token adds to a round, likewise


class Models:
    """The verifier and the model drafters of `bundle`, run by `programs`. Their caches outlive requests."""

    def __init__(self, bundle: Bundle, programs: Programs) -> None:
        manifest = bundle.manifest
        self._manifest = manifest
        self._programs = programs
        self.context = manifest.context
        self.token_count = manifest.verifier.vocab_rows
        self.eos_ids: frozenset[int] = frozenset()
        if manifest.tokenizer is not None:
            self.token_count, self.eos_ids = manifest.tokenizer.token_count, frozenset(manifest.tokenizer.eos_ids)
        self.verifier = ModelCache(programs.verify, self.context + manifest.slack, programs.max_width(VERIFIER))
        self._contexts = {
            key: min(info.model.context, self.context)
            for key, info in manifest.drafters.items()
            if info.model is not None
        }
        self._reads_features = {key for key in self._contexts if manifest.drafters[key].features}
        self.drafter_caches = {
            key: _drafter_cache(
                programs, key, context + manifest.slack, self.verifier if key in self._reads_features else None
            )
            for key, context in self._contexts.items()
        }
        self._head_ids = {key: _load_head_ids(bundle, key) for key in self._contexts}
        self._costs: dict[str | None, CostEstimate] = {}  # of the machine: what one request learns the next uses

    @property
    def max_gamma(self) -> int:
        """Most tokens one round can draft: the verifier is fed one more."""
        return self._programs.max_width(VERIFIER) - 1

    def default_drafter(self) -> str | None:
        """The bundle's first model drafter, else n-gram if the bundle names it, else None."""
        return next(iter(self._contexts), NGRAM if self._manifest.drafters else None)

    def warper(self, params: SamplingParams, rows: int, ids: NDArray[np.int64] | None = None) -> Warper:
        """The request's warping for logits of up to `rows` rows; ids: columns of a trimmed head."""
        return Warper(
            params,
            vocab_rows=self._manifest.verifier.vocab_rows,
            token_count=self.token_count,
            eos_ids=self.eos_ids,
            max_rows=rows,
            ids=ids,
        )

    def drafter(self, key: str, params: SamplingParams, max_gamma: int) -> Drafter:
        """Drafter `key` for one request. Raises OptionError: the bundle has none of that name."""
        info = self._manifest.drafters.get(key)
        if key == NGRAM or (info is not None and info.kind == "ngram"):
            return NgramDrafter()
        if key not in self._contexts:
            known = ", ".join(sorted({*self._manifest.drafters, NGRAM}))
            raise OptionError(f"drafter {key!r}: this bundle has {known}")
        ids = self._head_ids[key]
        build = partial(FeatureDrafter, verifier=self.verifier) if key in self._reads_features else ModelDrafter
        return build(
            self.drafter_caches[key],
            self.warper(params, 1, ids),
            greedy=params.greedy,
            context=self._contexts[key],
            columns=self._manifest.verifier.vocab_rows if ids is None else len(ids),
            max_gamma=max_gamma,
            law_ids=ids,
        )

    def check_options(self, params: SamplingParams, drafter: str | Drafter | None) -> None:
        """Raises OptionError: something that the programs for the verifier or for `drafter` do not serve."""
        owners = (VERIFIER, drafter) if isinstance(drafter, str) and drafter in self._contexts else (VERIFIER,)
        for owner in owners:
            check_served(owner, self._programs.options(owner), params.required_options())

    def full_precision(self, params: SamplingParams) -> Feed | None:
        """What the request's full verification points feed the verifier with; None: what every step does.

        Raises OptionError: the verifier's caches are narrower than fp32 and no program recomputes them.
        """
        dtype = coarse_caches(self._manifest.programs) if params.verify_every else None
        if dtype is None:
            return None
        feed = self._programs.full_precision()
        if feed is None:
            raise OptionError(
                f"verify_every recomputes the context in full-precision caches, this bundle's are {dtype}, and none of "
                "its programs does it: leave it out, or compile with --precision kv=fp32 for a backend that takes it"
            )
        return feed

    def adaptive_gamma(self, key: str | None, prompt: Tokens, room: int) -> AdaptiveGamma:
        """What chooses among the bundle's gammas for one request; key None: a drafter of the caller's own."""
        limit = max(self._manifest.gammas, default=0)
        info = self._manifest.drafters.get(key or "")
        measured = info.measured if info is not None else None
        guesses = range(1, limit + 1)
        acceptance = measured.acceptance if measured else [GUESSED_ACCEPTANCE**i for i in guesses]
        if key not in self._costs:
            costs = round_costs(measured.round_s) if measured else [1.0, *(1 + GUESSED_COST * i for i in guesses)]
            self._costs[key] = CostEstimate(costs[: limit + 1], measured.round_s[0] if measured else 0.0)
        cache = self.drafter_caches.get(key or "")
        fed = prompt[1:] if key in self._reads_features else prompt
        return AdaptiveGamma(
            AcceptanceEstimate(acceptance, limit),
            self._costs[key],
            room=room,
            missed=0 if cache is None else len(fed) - cache.agreed(fed),
            refill_s=measured.refill_s if measured else 0.0,
        )

    def fused_rounds(self, key: str, drafter: Drafter, params: SamplingParams, max_gamma: int) -> dict[int, FusedRound]:
        """The loaded in-graph rounds of `drafter` that serve all of the request's options, by gamma."""
        rounds: dict[int, FusedRound] = {}
        if not isinstance(drafter, ModelDrafter):
            return rounds
        for gamma in range(1, max_gamma + 1):
            program = find_round(self._programs.rounds, key, gamma, params.required_options())
            if program is not None:
                rounds[gamma] = FusedRound(self._programs, program, self.verifier, drafter, params)
        return rounds

    def fused_loop(self, key: str, drafter: Drafter, params: SamplingParams, gamma: int) -> FusedLoop | None:
        """The loaded program of `drafter` that generates all of the request's text in rounds of `gamma`, if any."""
        if not isinstance(drafter, ModelDrafter) or params.stop_strings or params.verify_every:
            return None
        stops = params.end_ids(self.eos_ids)
        for loop in self._programs.loops:
            if runs_rounds(loop.program, key, gamma, params.required_options()):
                return FusedLoop(loop, self.verifier, drafter, params, stops)
        return None


def _drafter_cache(programs: Programs, key: str, rows: int, follows: ModelCache | None) -> ModelCache:
    nothing = np.zeros((0, 0), np.float32)

    def feed(tokens: Tokens, position: int, rows: int) -> Logits:
        if rows:
            return programs.draft(key, tokens, position)[None]
        programs.catchup(key, tokens, position)
        return nothing

    return ModelCache(feed, rows, programs.max_width(key), follows=follows)


def _load_head_ids(bundle: Bundle, key: str) -> NDArray[np.int64] | None:
    """Full token ids of the rows of drafter `key`'s trimmed head, int64 `[head_rows]`; None: the head is whole."""
    info = bundle.manifest.drafters[key]
    if info.head_ids is None:
        return None
    path = bundle.path(info.head_ids)
    try:
        ids: NDArray[np.int64] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise IntegrityError(f"{path}: not a .npy array ({error}); re-copy or re-compile the bundle") from None
    rows = bundle.manifest.verifier.vocab_rows
    ascending = (
        ids.shape == (info.head_rows,) and ids.dtype.kind in "iu" and bool((np.diff(ids.astype(np.int64)) > 0).all())
    )
    if not ascending or ids[0] < 0 or ids[-1] >= rows:
        raise IntegrityError(
            f"{path}: expected {info.head_rows} ascending ids below {rows}; re-copy or re-compile the bundle"
        )
    return ids.astype(np.int64)
