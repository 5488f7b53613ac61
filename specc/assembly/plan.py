"""What one compile will do."""

from dataclasses import dataclass

from specc.assembly.core_models import DrafterPlan
from specc.assembly.sources import ModelSource
from specc.backends.record import Backend
from specc.options import CompileOptions, Precision
from specc.targets import Target


@dataclass(frozen=True)
class Plan:
    """Everything decided before a graph is built."""

    options: CompileOptions
    target: Target
    backend: Backend
    verifier: ModelSource
    drafters: tuple[DrafterPlan, ...]
    gammas: tuple[int, ...]
    precision: Precision
    context: int
    slack: int
