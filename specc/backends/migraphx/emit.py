"""Programs of the MIGraphX backend: static, one file each, to be built on the device."""

from dataclasses import dataclass, replace

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.backends.migraphx.lint import check_dialect
from specc.backends.migraphx.lowering import lower
from specc.backends.migraphx.script import build_script
from specc.backends.record import CoreModel, EmitRequest, owned_state, signature
from specc.backends.served_options import HOST_OPTIONS, ROUND_OPTIONS
from specc.backends.steps import Step, drafter_steps, verifier_steps
from specc.bundle.staging import Staging
from specc.core.building import Body
from specc.core.initializers import part_of
from specc.core.topology import chain
from specc.errors import OptionError
from specc.models.features import FUSING
from specc.passes.bake_topology import bake_topology
from specc.passes.fuse_round import DRAFTER, VERIFIER, fuse_round
from specc.passes.narrow_linears import narrow_linears
from specc.passes.set_width import set_width
from specc_runtime.engines.migraphx_machine import BUILD_SCRIPT
from specc_runtime.manifest import Program, ProgramKind

REQUIRES = ("migraphx>=2.15",)
FEW_ROWS: tuple[ProgramKind, ...] = ("verify", "draft", "round")  # kinds whose caches may be written row by row


def emit(request: EmitRequest, staging: Staging) -> tuple[Program, ...]:
    """Prefill and verify of every width, each drafter's steps, and a round per drafter and gamma.

    A graph's outputs stand in the manifest's order, tensors before states, because MIGraphX keeps no names of outputs.
    Files lie beside the weights file, where its parser looks for them.
    Raises OptionError: 8-bit weights in the verifier, other than of the matrix that fuses a drafter's features.
    """
    _check_request(request)
    staging.add_file(BUILD_SCRIPT, build_script(request.target))
    request = narrowed(request)
    emission = _Emission(request, staging)
    prompts = [request.prefill_width]
    programs = [emission.step(request.verifier, step) for step in verifier_steps(request.gammas, prompts)]
    for key, drafter in request.drafters.items():
        programs += [emission.step(drafter, step, key) for step in drafter_steps(drafter, request.gammas, prompts)]
        programs += [emission.round(key, gamma) for gamma in request.gammas]
    return tuple(programs)


def _check_request(request: EmitRequest) -> None:
    weights = request.verifier.graph.graph.initializers.values()
    if any(weight.dtype == ir.DataType.INT8 and part_of(weight) != FUSING for weight in weights):
        raise OptionError(
            "precision: backend 'migraphx' builds 8-bit weights in drafters only, because its 8-bit products round "
            "activations too; give --precision balanced, or attention, mlp and head in 16 or 32 bits"
        )


def narrowed(request: EmitRequest) -> EmitRequest:
    """Products in the dtype the weight is stored in, but for a head that is to be fp32."""

    def narrow(core: CoreModel) -> CoreModel:
        return replace(core, graph=narrow_linears(core.graph.clone(), wide_head=core.wide_head))

    drafters = {key: narrow(core) for key, core in request.drafters.items()}
    return replace(request, verifier=narrow(request.verifier), drafters=drafters)


@dataclass(frozen=True)
class _Emission:
    """One compile's programs, made one by one."""

    request: EmitRequest
    staging: Staging

    def step(self, core: CoreModel, step: Step, drafter: str | None = None) -> Program:
        """Tokens fed in a chain; the numbers of the rows that give logits are an input."""
        graph = bake_topology(set_width(core.graph, step.width, step.rows or 1), chain(step.width - 1))
        if not step.rows:
            _drop_logits(graph)
        name = f"{core.role}.{step.kind}.{step.width}"
        described = Program(
            id=name,
            kind=step.kind,
            file=f"{name}.onnx",
            inputs=(),
            outputs=(),
            state=core.state(),
            width=step.width,
            max_width=step.width,
            drafter=drafter,
            accept="host",
            options=HOST_OPTIONS,
            requires=REQUIRES,
        )
        return self._written(graph, described)

    def round(self, key: str, gamma: int) -> Program:
        """A whole round. What the drafter's caches hold between its steps stays inside."""
        verifier, drafter = self.request.verifier, self.request.drafters[key]
        graph = fuse_round(verifier.graph, drafter.graph, gamma, head_ids=self.request.head_ids.get(key))
        state = (
            *owned_state(verifier.state(), verifier.role, VERIFIER),
            *owned_state(drafter.state(), drafter.role, DRAFTER),
        )
        made = {v.name: v for v in graph.graph.outputs}
        graph.graph.outputs[:] = [made[name] for name in ("ids", "count", *(s.output for s in state))]
        described = Program(
            id=f"{key}.round.{gamma}",
            kind="round",
            file=f"{key}.round.{gamma}.onnx",
            inputs=(),
            outputs=(),
            state=state,
            width=gamma + 1,
            max_width=gamma + 1,
            drafter=key,
            accept="graph",
            options=ROUND_OPTIONS,
            requires=REQUIRES,
        )
        return self._written(graph, described)

    def _written(self, graph: ir.Model, described: Program) -> Program:
        """The program with its signature, its graph lowered and staged."""
        inputs, outputs = signature(graph, described.state)
        order = [*(o.name for o in outputs), *(s.output for s in described.state)]
        graph.graph.outputs[:] = sorted(graph.graph.outputs, key=lambda value: order.index(str(value.name)))
        graph.graph.name = described.id
        in_place = self.request.target.in_place_caches and described.kind in FEW_ROWS
        self.staging.add_graph(described.file, lower(graph, in_place=in_place), check_dialect)
        return replace(described, inputs=inputs, outputs=outputs)


def _drop_logits(graph: ir.Model) -> None:
    """Leave out what only the logits need. Asked for row -1, a drafter that reads features leaves no prediction."""
    body, rows = Body(), next(v for v in graph.graph.inputs if v.name == "rows")
    rows.replace_all_uses_with(body.constant([-1]))
    graph.graph.insert_before(graph.graph[0], body.nodes)
    graph.graph.inputs.remove(rows)
    graph.graph.outputs.remove(next(v for v in graph.graph.outputs if v.name == "logits"))
    ir_passes.RemoveUnusedNodesPass()(graph)
