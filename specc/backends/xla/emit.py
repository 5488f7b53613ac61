"""Programs of the XLA backend: static widths, weights as arguments, one exported file a program."""

from dataclasses import replace

from specc.backends.record import CoreModel, EmitRequest
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.backends.steps import Step, drafter_steps, verifier_steps
from specc.backends.xla.artifacts import Destination, stage
from specc.backends.xla.layout import Layout, state_stacks
from specc.backends.xla.loop import looped
from specc.backends.xla.machine import Machine
from specc.backends.xla.program import FlatProgram, Owned, flat_program, step_program
from specc.backends.xla.sharing import Shares
from specc.bundle.staging import Staging
from specc.passes.fuse_round import DRAFTER, VERIFIER, fuse_round
from specc.passes.narrow_attention import narrow_attention
from specc.passes.narrow_linears import narrow_linears
from specc_runtime.manifest import FEATURES, Program, ProgramKind

SHORT_PREFILL = 32  # tokens of the narrower prefill: what is left of a prompt is seldom as wide as the wide one


def emit(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """Steps of every decoder in every width that is needed; with `fuse` whole rounds, with `loop` whole generations."""
    to = Destination.of(request.target, request.xla_options)
    request = narrowed(request, to.machine)
    cores = [request.verifier, *request.drafters.values()]
    layout = Layout(cores, Shares.of(request.verifier, request.target))
    for core in cores:
        staging.weights.add(core.graph)
    prompts = _prefill_widths(request)
    steps = verifier_steps(request.gammas, prompts)
    programs = [_step(request.verifier, step, layout, to, staging) for step in steps]
    for key, core in request.drafters.items():
        steps = drafter_steps(core, request.gammas, prompts)
        programs += [replace(_step(core, step, layout, to, staging), drafter=key) for step in steps]
        if request.fuse:
            programs += [_round("round", request, key, gamma, layout, to, staging) for gamma in request.gammas]
        if request.loop:
            programs += [_round("loop", request, key, gamma, layout, to, staging) for gamma in request.gammas]
    return tuple(programs)


def narrowed(request: EmitRequest, machine: Machine) -> EmitRequest:
    """Attention computed in the 16 bits its caches are stored in, where the machine has such products.

    Linear layers follow their weights' dtype by their lowering; a head that is to be fp32 is widened here.
    """

    def narrow(core: CoreModel) -> CoreModel:
        state = {spec.dtype for spec in core.state() if spec.role != FEATURES}
        graph = narrow_linears(core.graph.clone(), wide_head=core.wide_head)
        return replace(core, graph=narrow_attention(graph) if all(map(machine.multiplies, state)) else graph)

    if not machine.matrix_dtypes:
        return request
    drafters = {key: narrow(core) for key, core in request.drafters.items()}
    return replace(request, verifier=narrow(request.verifier), drafters=drafters)


def _prefill_widths(request: EmitRequest) -> list[int]:
    return sorted({min(SHORT_PREFILL, request.prefill_width), request.prefill_width})


def _step(core: CoreModel, step: Step, layout: Layout, to: Destination, staging: Staging) -> Program:
    flat = step_program(core, layout, to.machine, step.width, step.rows)
    program = Program(
        id=f"{core.role}.{step.kind}.w{step.width}",
        kind=step.kind,
        file=f"programs/{core.role}.{step.kind}.w{step.width}",
        inputs=flat.inputs,
        outputs=flat.outputs,
        width=step.width,
        max_width=step.width,
        options=HOST_OPTIONS,
    )
    return stage(program, flat, to, staging)


def _round(
    kind: ProgramKind,
    request: EmitRequest,
    key: str,
    gamma: int,
    layout: Layout,
    to: Destination,
    staging: Staging,
) -> Program:
    """A whole round in one program, or all rounds of a text."""
    program = Program(
        id=f"{key}.{kind}.gamma{gamma}",
        kind=kind,
        file=f"programs/{key}.{kind}.gamma{gamma}",
        inputs=(),
        outputs=(),
        width=gamma + 1,
        max_width=gamma + 1,
        drafter=key,
        accept="graph",
        options=ROUND_OPTIONS,
    )
    make = round_program if kind == "round" else loop_program
    return stage(program, make(request, key, gamma, layout, to.machine, staging), to, staging)


def loop_program(
    request: EmitRequest, key: str, gamma: int, layout: Layout, machine: Machine, staging: Staging
) -> FlatProgram:
    """Rounds until a text ends, as one function; what it reads besides the decoders' weights is staged."""
    round_ = round_program(request, key, gamma, layout, machine, staging, limited=True)
    return looped(round_, gamma, request.verifier.cache_rows, request.verifier.head_rows)


def round_program(
    request: EmitRequest,
    key: str,
    gamma: int,
    layout: Layout,
    machine: Machine,
    staging: Staging,
    *,
    limited: bool = False,
) -> FlatProgram:
    """Draft, verify and accept as one function; what it reads besides the decoders' weights is staged.

    limited: it takes how many tokens to draft, at most gamma.
    """
    drafter, head_ids = request.drafters[key], request.head_ids.get(key)
    graph = fuse_round(request.verifier.graph, drafter.graph, gamma, head_ids=head_ids, limited=limited)
    staging.weights.add(graph)
    owned = [_owned(request.verifier, VERIFIER, layout), _owned(drafter, DRAFTER, layout)]
    return flat_program(graph, owned, layout, machine)


def _owned(core: CoreModel, prefix: str, layout: Layout) -> Owned:
    """What one decoder owns; features belong to the drafter that reads them."""
    stacks = state_stacks(core, layout.shares)
    return Owned(tuple(stack for stack in stacks if stack.spec.owner == core.role), prefix)
