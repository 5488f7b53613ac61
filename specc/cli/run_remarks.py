"""What `specc run` adds about a request: options that had no effect, and texts that ended early."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specc_runtime.generation import Generation
from specc_runtime.manifest import Manifest
from specc_runtime.params import SamplingParams
from specc_runtime.selection import find_round


def remarks(
    manifest: Manifest, params: SamplingParams, asked: Mapping[str, Any], generations: Iterable[Generation]
) -> Iterator[str]:
    """One line each. asked: the command's drafter, gamma, plain and fused. generations: what came of it, finished."""
    if params.greedy:
        given = {"--top-k": params.top_k > 0, "--top-p": params.top_p < 1, "--min-p": params.min_p > 0}
        idle = ", ".join(option for option, was_given in given.items() if was_given)
        if idle:
            yield f"{idle} had no effect: at temperature 0 the likeliest token is taken; add --temperature"
        if params.n > 1:
            yield f"all {params.n} texts are the same at temperature 0; add --temperature"
    if asked["fused"] and not _has_rounds(manifest, params, asked):
        yield "--fused had no effect: no program runs whole rounds of this drafter, gamma and these options"
    if any(g.finish_reason == "length" and len(g.ids) < params.max_new_tokens for g in generations):
        yield f"the context of {manifest.context} positions is full; compile with a larger --context for longer texts"


def _has_rounds(manifest: Manifest, params: SamplingParams, asked: Mapping[str, Any]) -> bool:
    """Whether any round that was asked for is one program of the bundle."""
    gamma = asked["gamma"] if asked["gamma"] is not None else manifest.gamma
    if asked["plain"] or (gamma == 0 and asked["drafter"] is None):
        return False
    drafter = asked["drafter"] or next(iter(manifest.drafters), "")
    lengths = manifest.gammas if gamma == "auto" else [gamma or max(manifest.gammas, default=0)]
    rounds = [program for program in manifest.programs if program.kind == "round"]
    return any(find_round(rounds, drafter, length, params.required_options()) for length in lengths)
