"""What one compile will do."""

from dataclasses import dataclass

from specc.assembly.calibration import read_calibration
from specc.assembly.core_models import DrafterPlan
from specc.assembly.drafters import plan_drafters
from specc.assembly.sources import ModelSource, open_model
from specc.backends import choose_backend
from specc.backends.record import Backend
from specc.errors import OptionError
from specc.models.limits import check_context, largest_context
from specc.options import (
    DEFAULT_CONTEXT,
    DEFAULT_PRECISION,
    CompileOptions,
    Part,
    Precision,
    PrecisionPolicy,
    parse_precision,
)
from specc.progress import Progress
from specc.targets import Target, load_target


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


def made_plan(options: CompileOptions, progress: Progress) -> Plan:
    """The plan for `options`; checkpoints are opened and nothing is built.

    Raises CompileError: a target, backend, checkpoint, drafter, context or precision that can't be had together.
    """
    target = load_target(options.target)
    backend = choose_backend(target, options.backend)
    _check_options(options, backend)
    with progress.step("opening checkpoints"):
        verifier = open_model(options.model, options.ignore_config)
        context = options.context or min(DEFAULT_CONTEXT, largest_context(verifier.spec))
        check_context(verifier.spec, context, verifier.checkpoint.path)
        drafters = plan_drafters(options, verifier, context)
    precision = _policy(options, backend, target).resolve(target.dtypes, verifier.dtype, backend.state_dtypes(target))
    _check_precision(precision, backend, target, options.precision)
    gammas = options.gammas or _default_gammas(options, backend)
    rows = context + max(gammas) + 1 + backend.slack
    slack = (rows if backend.cache_rows is None else backend.cache_rows(target, rows)) - context
    return Plan(options, target, backend, verifier, drafters, gammas, precision, context, slack)


def _default_gammas(options: CompileOptions, backend: Backend) -> tuple[int, ...]:
    """The backend's; of rounds only the longest, because each holds weights of its own."""
    return backend.default_gammas[-1:] if options.fuse else backend.default_gammas


def _policy(options: CompileOptions, backend: Backend, target: Target) -> PrecisionPolicy:
    if options.precision is not None:
        return options.precision
    default = backend.default_precision
    return PrecisionPolicy() if default is None else parse_precision(default(target))


def _check_options(options: CompileOptions, backend: Backend) -> None:
    """What can be refused before anything large is opened."""
    if options.xla_options and not backend.compiler_options:
        raise OptionError(f"xla-option: backend {backend.name!r} does not compile with XLA; leave --xla-option out")
    if options.loop and "loop" not in backend.programs:
        raise OptionError(
            f"loop: backend {backend.name!r} has no programs that run whole generations; leave --loop out"
        )
    for name, asked in (("fuse", options.fuse), ("loop", options.loop)):
        if asked and options.draft.kind == "ngram":
            raise OptionError(
                f"{name}: an n-gram drafter has no graph to fuse; leave --{name} out or draft with a model"
            )
    if options.calibration is not None:
        read_calibration(options.calibration)


def _check_precision(precision: Precision, backend: Backend, target: Target, asked: PrecisionPolicy | None) -> None:
    """Raises OptionError: a dtype that the backend does not build caches or linears of."""
    for part, dtype in precision.parts().items():
        known = backend.state_dtypes(target) if part == "kv" else backend.weight_dtypes
        if part != "embedding" and dtype not in known:
            raise OptionError(
                f"precision: {part}={dtype} is not built by backend {backend.name!r}; known: {', '.join(sorted(known))}"
                + _missing_preset(part, asked)
            )


def _missing_preset(part: Part, asked: PrecisionPolicy | None) -> str:
    """The hint for who set other parts, and did not know that the rest of them are the reference's."""
    if asked is None or asked.preset != DEFAULT_PRECISION or part in asked.overrides:
        return ""
    changes = "".join(f",{name}={dtype}" for name, dtype in asked.overrides.items())
    return f"; {part} is that of {DEFAULT_PRECISION}: begin with another preset, e.g. --precision balanced{changes}"
