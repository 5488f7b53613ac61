"""A bundle under judgement: its programs loaded once, for every check and every way to decode with them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import Loop, Programs
from specc_runtime.manifest import Program


@dataclass(frozen=True)
class Way:
    """One way to speculate: who drafts, how many tokens, and what one program runs: a step, a round, all rounds."""

    drafter: str
    gamma: int
    fused: bool = False
    looped: bool = False

    def __str__(self) -> str:
        return listed([self])


def listed(ways: Iterable[Way]) -> str:
    """Ways by drafter, the gammas of each together: `drafter, gamma 2, 4; drafter fused, gamma 4`."""
    gammas: dict[str, list[int]] = {}
    for way in ways:
        how = " looped" if way.looped else " fused" if way.fused else ""
        gammas.setdefault(f"{way.drafter}{how}", []).append(way.gamma)
    return "; ".join(f"{who}, gamma {', '.join(map(str, values))}" for who, values in gammas.items())


@dataclass(frozen=True)
class Subject:
    """A bundle and its loaded programs, rounds among them where it has any."""

    bundle: Bundle
    programs: Programs

    @classmethod
    def load(cls, bundle: Bundle) -> "Subject":
        """Load all programs. Raises EngineError."""
        has_rounds = any(program.kind in ("round", "loop") for program in bundle.manifest.programs)
        return cls(bundle, load_programs(bundle, fused=has_rounds))

    def ways(self, params: SamplingParams) -> tuple[Way, ...]:
        """Every way the bundle has to speculate under `params`: each drafter and gamma, host-driven, fused, looped."""
        manifest, options = self.bundle.manifest, params.required_options()
        chained = [Way(drafter, gamma) for drafter in manifest.drafters for gamma in manifest.gammas]
        in_graph = [*self.programs.rounds, *(loop.program for loop in self.programs.loops)]
        fused = [
            Way(program.drafter or "", (program.width or 1) - 1, fused=True, looped=program.kind == "loop")
            for program in in_graph
            if options <= frozenset(program.options)
        ]
        return (*chained, *fused)

    def engine(self, *, fused: bool = False) -> Engine:
        """A new engine over the loaded programs: it trusts nothing that is in the caches, and knows no other engine."""
        return Engine(self.bundle, self.programs if fused else _Chained(self.programs))

    def generate(self, way: Way, prompt: NDArray[np.int64], params: SamplingParams) -> list[int]:
        """The ids of a whole generation."""
        engine = self.engine(fused=way.fused)
        generation = engine.generate(prompt.tolist(), params, drafter=way.drafter, gamma=way.gamma)
        return generation.finish().ids if way.looped else list(generation)


class _Chained:
    """The same programs without the rounds: the host chains every step."""

    loops: tuple[Loop, ...] = ()
    rounds: tuple[Program, ...] = ()

    def __init__(self, programs: Programs) -> None:
        self.verify, self.draft, self.catchup = programs.verify, programs.draft, programs.catchup
        self.round, self.options = programs.round, programs.options
        self.max_width, self.reset = programs.max_width, programs.reset
        self.full_precision = programs.full_precision
