"""Choosing programs by what they are, never by name."""

from collections.abc import Callable, Iterable, Sequence

from specc_runtime.errors import EngineError
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
    """The round program of `drafter` and `gamma` (width gamma + 1) that serves every one of `options`, or None."""
    needed = frozenset(options)
    for program in rounds:
        if program.drafter == drafter and program.width == gamma + 1 and needed <= frozenset(program.options):
            return program
    return None
