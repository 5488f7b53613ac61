"""What one compile is asked for, parsed and checked before anything is opened."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from specc.errors import OptionError
from specc.options.precision import PrecisionPolicy
from specc_runtime.manifest import MAX_THREADS

GAMMA_LIMITS = (1, 16)
CONTEXT_LIMITS = (16, 1 << 20)
THREAD_LIMITS = (1, MAX_THREADS)
DEFAULT_CONTEXT = 2048


@dataclass(frozen=True)
class DraftSpec:
    """Where the drafter comes from.

    kind: "slice" (the first layers of the verifier), "ngram" (lookup in the text so far) or "checkpoint".
    layers: of a slice. source: of a checkpoint, as the user wrote it.
    """

    kind: Literal["slice", "ngram", "checkpoint"]
    layers: int | None = None
    source: str | None = None


def parse_draft(text: str) -> DraftSpec:
    """The drafter written as `slice:N`, `ngram`, or anything a checkpoint may be named by.

    Raises OptionError: an empty text, or a slice of no layers.
    """
    if not text:
        raise OptionError("draft: empty; give slice:N, ngram, or a checkpoint")
    if text == "ngram":
        return DraftSpec("ngram")
    if text.startswith("slice"):
        match = re.fullmatch(r"slice:(\d+)", text)
        if match is None or _number(match[1]) == 0:
            raise OptionError(
                f"draft: {text[:80]!r} is no slice; write slice:N with N layers, at least 1, e.g. slice:4"
            )
        return DraftSpec("slice", layers=_number(match[1]))
    return DraftSpec("checkpoint", source=text)


@dataclass(frozen=True)
class DraftVocabulary:
    """The tokens a trimmed drafter head may propose: the `count` most frequent, or those a file lists."""

    count: int | None = None
    file: Path | None = None


def parse_draft_vocabulary(text: str) -> DraftVocabulary:
    """The subset written as a number of tokens or the path of a file with one token id a line.

    Raises OptionError: a number below 2.
    """
    if re.fullmatch(r"-?\d+", text) is None:
        return DraftVocabulary(file=Path(text))
    count = _number(text)
    if count < 2:
        raise OptionError(f"draft-vocab: {count} tokens are too few to draft from; give at least 2, or a file of ids")
    return DraftVocabulary(count=count)


def parse_gammas(text: str) -> tuple[int, ...]:
    """Draft lengths written as `4` or `2,4,6`: ascending, each once.

    Raises OptionError: not numbers, out of GAMMA_LIMITS, or one given twice.
    """
    low, high = GAMMA_LIMITS
    items = [item.strip() for item in text.split(",")]
    if not all(re.fullmatch(r"-?\d+", item) for item in items):
        raise OptionError(f"gamma: {text[:80]!r} is no list of numbers; write 4 or 2,4,6")
    gammas = [_number(item) for item in items]
    for gamma in gammas:
        if not low <= gamma <= high:
            raise OptionError(f"gamma: {gamma} drafted tokens a round are not built; give {low} to {high}")
    if len(set(gammas)) < len(gammas):
        raise OptionError(f"gamma: {text!r} names a length twice")
    return tuple(sorted(gammas))


def parse_xla_options(texts: Iterable[str]) -> dict[str, str]:
    """Options of XLA's compiler, each written as `name=value`. Raises OptionError: not that, or one set twice."""
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = (piece.strip() for piece in text.partition("="))
        if not (name and equals and value):
            raise OptionError(f"xla-option: {text[:80]!r} is no assignment; write NAME=VALUE")
        if name in options:
            raise OptionError(f"xla-option: {name!r} is set twice")
        options[name] = value
    return options


def _number(digits: str) -> int:
    """The number, or its first digits if it is out of every range here: int() refuses texts of thousands of digits."""
    return int(digits[:12])


@dataclass(frozen=True)
class CompileOptions:
    """Everything one compile is asked for. Raises OptionError when values are out of range or contradict each other.

    model: any name of a checkpoint. target: a known target or the path of a .toml file.
    backend: one that the target lists; None: the target's default.
    gammas: draft lengths; precision. None: what the backend takes by default.
    context: positions the caches hold; None: DEFAULT_CONTEXT, or the model's own limit where that is smaller.
    threads: engine threads; None: measured. fuse: add `round` programs. loop: add `loop` programs. force: replace an
    existing output.
    calibration: a text distances and token counts are measured on; None: the shipped one.
    measure: find out what speculation costs and gains here, and make the gamma that pays best the default.
    ignore_config: config.json fields to build without, at the user's word.
    xla_options: of XLA's compiler, by name, for programs that are compiled ahead of time.
    """

    model: str
    output: Path
    draft: DraftSpec
    target: str = "cpu"
    backend: str | None = None
    gammas: tuple[int, ...] | None = None
    context: int | None = None
    precision: PrecisionPolicy | None = None
    fuse: bool = False
    loop: bool = False
    draft_vocabulary: DraftVocabulary | None = None
    calibration: Path | None = None
    ignore_config: tuple[str, ...] = ()
    xla_options: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    measure: bool = True
    force: bool = False

    def __post_init__(self) -> None:
        low, high = CONTEXT_LIMITS
        if self.context is not None and not low <= self.context <= high:
            raise OptionError(f"context: {self.context} positions are out of range; give {low} to {high}")
        low, high = THREAD_LIMITS
        if self.threads is not None and not low <= self.threads <= high:
            raise OptionError(
                f"threads: {self.threads} is out of range; give {low} to {high}, or leave it to be measured"
            )
        if self.draft_vocabulary is not None and self.draft.kind == "ngram":
            raise OptionError("draft-vocab: an n-gram drafter has no head to trim; leave one of the two out")
