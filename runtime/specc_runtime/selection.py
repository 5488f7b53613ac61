"""Choosing programs by what they are, never by name."""

from collections.abc import Callable, Collection, Iterable, Sequence

from specc_runtime.errors import EngineError, OptionError
from specc_runtime.manifest import VERIFIER, Manifest, Program


def usable_programs(manifest: Manifest, has_feature: Callable[[str], bool]) -> tuple[Program, ...]:
    """The programs whose every requirement `has_feature` knows and has."""
    return tuple(program for program in manifest.programs if all(map(has_feature, program.requires)))


def stepping_program(programs: Sequence[Program], owner: str) -> Program:
    """The program that feeds `owner` any number of rows and returns logits: verify, or a drafter's draft.

    Of several the widest. Raises EngineError if there is none.
    """
    kind, drafter = ("verify", None) if owner == VERIFIER else ("draft", owner)
    found = [p for p in programs if (p.kind, p.drafter, p.width, p.batch) == (kind, drafter, None, 1)]
    if not found:
        raise EngineError(
            f"no usable {kind} program of open width for {owner!r}; upgrade the engine or re-compile the bundle"
        )
    return max(found, key=lambda program: program.max_width)


def find_round(rounds: Iterable[Program], drafter: str, gamma: int, options: Iterable[str]) -> Program | None:
    """The program of `rounds` that `runs_rounds` of these, or None."""
    return next((program for program in rounds if runs_rounds(program, drafter, gamma, options)), None)


def runs_rounds(program: Program, drafter: str, gamma: int, options: Iterable[str]) -> bool:
    """Whether a round or loop is of `drafter` and `gamma` (width gamma + 1) and serves every one of `options`."""
    fits = program.drafter == drafter and program.width == gamma + 1
    return fits and frozenset(options) <= frozenset(program.options)


def check_served(owner: str, served: Collection[str], asked: Iterable[str]) -> None:
    """Raises OptionError if `served`, the options that steps of `owner` serve, lack one of those `asked` for."""
    missing = sorted(set(asked) - set(served))
    if missing:
        raise OptionError(f"no program of this bundle for {owner!r} serves {', '.join(missing)}: leave it out")


def coarse_caches(programs: Iterable[Program]) -> str | None:
    """The dtype in which the verifier keeps keys and values between rounds, if it is not fp32.

    A full verification point is to show how far the caches drifted; caches as coarse as those it judges can't.
    """
    states = (state for program in programs for state in program.state)
    kept = (s.dtype for s in states if s.owner == VERIFIER and s.role.startswith("layers."))
    return min((dtype for dtype in kept if dtype != "float32"), default=None)


def recompute_program(programs: Iterable[Program]) -> Program | None:
    """The program that feeds the verifier any number of rows on fp32 caches of its own, or None."""
    found = (p for p in programs if (p.kind, p.width, p.batch) == ("recompute", None, 1))
    return max(found, key=lambda program: program.max_width, default=None)
