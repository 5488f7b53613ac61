"""Which static programs step a decoder: the widths that decoding, verifying, drafting and catching up are fed in."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from specc.backends.record import CoreModel
from specc.passes.fuse_round import first_width
from specc_runtime.manifest import FEATURES, ProgramKind


@dataclass(frozen=True)
class Step:
    """A program of one decoder, fed `width` tokens. rows: of logits: those of all tokens, of some, or 0."""

    kind: ProgramKind
    width: int
    rows: int


def verifier_steps(gammas: Iterable[int], prompts: Iterable[int]) -> Iterator[Step]:
    """Prompts, plain decoding, and a verification for each gamma, all rows of it. prompts: widths they are fed in."""
    verified = sorted({1, *(gamma + 1 for gamma in gammas)})
    yield from (Step("prefill", width, 1) for width in sorted(set(prompts)))
    yield from (Step("verify", width, width) for width in verified)


def drafter_steps(core: CoreModel, gammas: Sequence[int], prompts: Iterable[int]) -> Iterator[Step]:
    """Catching up, and drafting: one token at a time after a first step that takes what a round leaves unfed.

    A drafter that reads features leaves a prediction behind the rows that it gives logits for, so its steps that draft
    catch up no other; it has one of a single token for that.
    """
    features = any(state.role == FEATURES for state in core.state())
    drafted = sorted({1, *(first_width(gamma, features=features) for gamma in gammas)})
    known = sorted({*prompts, *((1,) if features else ())})
    yield from (Step("catchup", width, 0) for width in known)
    yield from (Step("draft", width, 1) for width in drafted)
