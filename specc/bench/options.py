"""What one benchmark is asked for."""

from dataclasses import dataclass, field
from typing import Literal

from specc_runtime import SamplingParams
from specc_runtime.manifest import Manifest
from specc_runtime.models import NGRAM

Gamma = int | Literal["auto"]


@dataclass(frozen=True)
class BenchOptions:
    """How every prompt is decoded, by all sides alike.

    gamma, drafter: of the speculative side. sampling: its max_new_tokens bounds each answer. turns: at most so many of
    a question's. chat: None: in the model's chat format if the bundle has one. threads: of the engines, for the report.
    cost_s: seconds spent on timing rounds of each draft length before the prompts.
    """

    gamma: Gamma
    drafter: str
    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(max_new_tokens=128, seed=0))
    turns: int = 1
    chat: bool | None = None
    threads: int = 1
    cost_s: float = 4.0


def chosen_gamma(manifest: Manifest, asked: Gamma | None) -> Gamma:
    """The gamma asked for, else the bundle's own, else (it decodes plainly by default) one that adapts."""
    return asked if asked is not None else manifest.gamma or "auto"


def chosen_drafter(manifest: Manifest, asked: str | None) -> str:
    """The drafter asked for, else the bundle's."""
    return asked or next(iter(manifest.drafters), NGRAM)
