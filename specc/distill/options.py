"""What a distillation is asked for. No torch here: the command line reads this."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specc.errors import OptionError, unknown

ARCHITECTURES = ("feature", "decoder")
DEVICES = ("cpu", "cuda")
DEFAULT_MINUTES = 60.0
DEFAULT_HEAD = 8192


@dataclass(frozen=True)
class Recipe:
    """Sizes of the training, fixed unless a test shrinks them.

    conversations, tokens: made at once at most, and the lengths of one lot after the other.
    text_share: of the minutes, for making text.
    batch: tokens an optimiser step sees. steps: rollout depth (EAGLE-3's training-time test, Li et al. 2025).
    single_share: of the training time, with rollout depth 1. decay: weight of each rollout step by the one before.
    learning_rate, vector_rate: of matrices and of vectors. average: decay of the weights' running average.
    evaluations: on the way, on `evaluated` conversations. held_out: one conversation in so many is never trained on.
    training_steps: ends the training by count instead of time.
    """

    conversations: int = 256
    tokens: tuple[int, ...] = (256, 256, 640)
    text_share: float = 0.35
    batch: int = 2048
    steps: int = 3
    single_share: float = 0.6
    decay: float = 0.8
    learning_rate: float = 0.03
    vector_rate: float = 1e-3
    warmup_share: float = 0.03
    weight_decay: float = 0.01
    average: float = 0.99
    evaluations: int = 12
    held_out: int = 20
    evaluated: int = 16
    training_steps: int | None = None


@dataclass(frozen=True)
class DistillOptions:
    """One distillation. minutes: wall time of all phases. head: rows of the trimmed head. text: files to learn too."""

    verifier: str
    output: Path
    minutes: float = DEFAULT_MINUTES
    architecture: str = "feature"
    head: int = DEFAULT_HEAD
    text: tuple[Path, ...] = ()
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise OptionError(unknown("architecture", self.architecture, ARCHITECTURES))
        if self.device not in DEVICES:
            raise OptionError(unknown("device", self.device, DEVICES))
        if not self.minutes > 0:
            raise OptionError(f"minutes: {self.minutes:g} is no time to train in; give more than 0")
        if self.head < 2:
            raise OptionError(f"head: {self.head} rows; give at least 2")

    def identity(self) -> dict[str, Any]:
        """What must stay the same for a run to be resumed."""
        return {
            "verifier": self.verifier,
            "architecture": self.architecture,
            "head": self.head,
            "text": [str(path) for path in self.text],
            "seed": self.seed,
            "conversations": self.recipe.conversations,
            "tokens": list(self.recipe.tokens),
        }

    def command(self) -> str:
        """The command line that asks for this."""
        words = ["specc", "draft", "distill", self.verifier, "-o", str(self.output), "--minutes", f"{self.minutes:g}"]
        words += ["--architecture", self.architecture, "--head", str(self.head), "--seed", str(self.seed)]
        for path in self.text:
            words += ["--text", str(path)]
        return shlex.join([*words, "--device", self.device])
