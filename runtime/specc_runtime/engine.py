"""The front door: a loaded bundle, and generations from it."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from specc_runtime.arguments import check_kinds, prompt_ids
from specc_runtime.bundle import Bundle, Verify, open_bundle
from specc_runtime.controller import Controller, FixedGamma
from specc_runtime.decode import Job
from specc_runtime.drafting.base import Drafter
from specc_runtime.drafting.none import NoDrafter
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Feed, Programs, Tokens
from specc_runtime.errors import EngineError, OptionError, RequestError, TokenizerError
from specc_runtime.generation import Generation
from specc_runtime.history import TokenHistory
from specc_runtime.manifest import Manifest
from specc_runtime.models import Models
from specc_runtime.output import Output, Streamer
from specc_runtime.params import SamplingParams
from specc_runtime.rng import fresh_seed
from specc_runtime.text import TextCodec, TextStream

Prompt = str | Sequence[int] | Tokens
Gamma = int | Literal["auto"] | Controller | None
AUTO: Literal["auto"] = "auto"


class Engine:
    """A bundle that is ready to generate: one text at a time, on one thread at a time.

    Caches stay from request to request, so a prompt that starts like the text before it is prefilled only from where
    it differs. bundle: what was loaded.
    """

    def __init__(self, bundle: Bundle, programs: Programs) -> None:
        self.bundle = bundle
        self._models = Models(bundle, programs)
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls, path: str | Path, *, threads: int | None = None, verify: Verify = "sizes", fused: bool = False
    ) -> "Engine":
        """Open the bundle at `path` and load its programs.

        threads: of a CPU engine; None: what was measured when the bundle was compiled. verify: "sizes" or "hashes".
        fused: use the bundle's in-graph `round` programs wherever they serve a request, and a `loop` program for what a
        generation's `finish()` has left to do.
        Raises BundleError, or one of its kinds, in one line that names the file or package and the fix.
        """
        bundle = open_bundle(path, verify)
        programs = load_programs(bundle, threads=threads, fused=fused)
        if fused and not (programs.rounds or programs.loops):
            raise EngineError(f"{path}: has no usable round programs; compile with --fuse, or load without fused")
        return cls(bundle, programs)

    @property
    def manifest(self) -> Manifest:
        """What the bundle says about itself."""
        return self.bundle.manifest

    @cached_property
    def codec(self) -> TextCodec:
        """The bundle's tokenizer. Raises TokenizerError: there is none, or its file or package is missing."""
        info = self.manifest.tokenizer
        if info is None:
            raise TokenizerError("this bundle has no tokenizer: use ids, or compile from a checkpoint that has one")
        return TextCodec(self.bundle.path(info.file), info)

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        drafter: str | Drafter | None = None,
        gamma: Gamma = None,
        plain: bool = False,
        streamer: Streamer | None = None,
    ) -> Generation:
        """Generate after `prompt` (text or ids): iterate over the result for ids, or call its `finish()`.

        params: None is greedy with the defaults of SamplingParams. drafter: a key of the bundle's drafters, or "ngram".
        gamma: tokens drafted in a round, "auto" to choose them round by round from what pays, or what chooses them;
        None: the bundle's own. "auto" times rounds: a seed alone does not repeat a sampled text. plain: draft nothing.
        streamer: called with each piece of text that is final; it never sees half a character or part of a stop string.

        Raises OptionError, ContextError, RequestError (a prompt that is empty or has unknown ids), TokenizerError.
        """
        params = SamplingParams() if params is None else params
        request = self._request(prompt, params, drafter, gamma, plain, streamer)
        if params.n != 1:
            raise OptionError(f"n is {params.n}: generate() gives one text, generate_samples() gives n")
        return self._start(request, sample=0, streamer=streamer)

    def generate_samples(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        drafter: str | Drafter | None = None,
        gamma: Gamma = None,
        plain: bool = False,
        streamer: Streamer | None = None,
    ) -> Iterator[Generation]:
        """`params.n` generations one after the other, the prompt prefilled once; arguments and errors are `generate`'s.

        Each is finished before the next starts: what the caller left of it is generated then. streamer: called with the
        pieces of each text in turn.
        """
        request = self._request(prompt, params, drafter, gamma, plain, streamer)
        return self._one_by_one(request, streamer)

    def forget(self) -> None:
        """Trust nothing cached from earlier requests: the next prompt is prefilled whole.

        Raises RequestError while a generation is running.
        """
        if not self._lock.acquire(blocking=False):
            raise RequestError("a generation is running on this engine: finish it, or close() it, before forgetting")
        try:
            for cache in (self._models.verifier, *self._models.drafter_caches.values()):
                cache.forget(0)
        finally:
            self._lock.release()

    def _one_by_one(self, request: "_Request", streamer: Streamer | None) -> Iterator[Generation]:
        for sample in range(request.params.n):
            generation = self._start(request, sample, streamer)
            yield generation
            generation.finish()

    def _request(
        self,
        prompt: Prompt,
        params: SamplingParams,
        drafter: str | Drafter | None,
        gamma: Gamma,
        plain: bool,
        streamer: Streamer | None = None,
    ) -> "_Request":
        """The arguments of `generate`, checked."""
        check_kinds(params, drafter, gamma, streamer)
        params.validate_vocabulary(self.manifest.verifier.vocab_rows)
        controller, max_gamma = self._controller(0 if plain else gamma, drafter is not None)
        chosen = (self._models.default_drafter() if drafter is None else drafter) if max_gamma else None
        self._models.check_options(params, chosen)
        seed = fresh_seed() if params.seed is None else params.seed
        full_precision = self._models.full_precision(params)
        return _Request(self._prompt_ids(prompt), params, chosen, controller, max_gamma, seed, full_precision)

    def _start(self, request: "_Request", sample: int, streamer: Streamer | None = None) -> Generation:
        models, params = self._models, request.params
        job = Job(
            params=params,
            seed=request.seed,
            sample=sample,
            history=TokenHistory(request.prompt, self.manifest.verifier.vocab_rows),
            verifier=models.verifier,
            drafter=NoDrafter(),
            warper=models.warper(params, request.max_gamma + 1),
            controller=request.controller or self._adaptive(request),
            output=self._output(params, streamer),
            eos_ids=models.eos_ids,
            context=models.context,
            token_count=models.token_count,
            max_gamma=request.max_gamma,
            scratch=np.empty(self.manifest.verifier.vocab_rows, np.float32),
            full_precision=request.full_precision,
        )
        if isinstance(request.drafter, str):
            job.drafter = models.drafter(request.drafter, params, request.max_gamma)
            job.fused = models.fused_rounds(request.drafter, job.drafter, params, request.max_gamma)
            if streamer is None and isinstance(request.controller, FixedGamma):
                job.loop = models.fused_loop(request.drafter, job.drafter, params, request.controller.gamma)
        elif request.drafter is not None:
            job.drafter = request.drafter
        return Generation(job, list(models.drafter_caches.values()), self._lock, lambda: self.codec)

    def _prompt_ids(self, prompt: Prompt) -> Tokens:
        ids = self.codec.encode(prompt) if isinstance(prompt, str) else prompt
        return prompt_ids(ids, self._models.token_count, self._models.context)

    def _controller(self, gamma: Gamma, drafter_named: bool) -> tuple[Controller | None, int]:
        """What chooses gamma, None for one that adapts to each text, and the most it may choose."""
        limit = self._models.max_gamma
        if isinstance(gamma, str):
            if gamma != AUTO:
                raise OptionError(f'gamma is {gamma!r}: it is a number, "auto" or a Controller')
            return None, max(self.manifest.gammas, default=0)
        if gamma is None:
            chosen = self.manifest.gamma or (max(self.manifest.gammas, default=0) if drafter_named else 0)
        elif isinstance(gamma, int | np.integer):
            chosen = int(gamma)
        else:
            return gamma, limit
        if not 0 <= chosen <= limit:
            raise OptionError(
                f"gamma is {chosen}: this bundle's programs verify 0 to {limit} drafted tokens in a round"
            )
        return FixedGamma(chosen), chosen

    def _adaptive(self, request: "_Request") -> Controller:
        key = request.drafter if isinstance(request.drafter, str) else None
        return self._models.adaptive_gamma(key, request.prompt, request.params.max_new_tokens)

    def _output(self, params: SamplingParams, streamer: Streamer | None) -> Output:
        needs_text = bool(params.stop_strings) or streamer is not None
        return Output(TextStream(self.codec) if needs_text else None, params.stop_strings, streamer)


@dataclass(frozen=True)
class _Request:
    """What `generate` was asked for, checked and with defaults filled in. controller: None adapts to each text.

    full_precision: feeds the verifier at full verification points; None: what every step does.
    """

    prompt: Tokens
    params: SamplingParams
    drafter: str | Drafter | None
    controller: Controller | None
    max_gamma: int
    seed: int
    full_precision: Feed | None
