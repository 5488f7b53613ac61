"""The rule registry and the sweep that applies it.

A rule rewrites one op or one function of domain `specc` that a backend lacks or has something better for:

    @rewrites("RMSNormalization", on="ort")
    def rms_normalization(node, body): ...

It records the replacement in `body` and returns the values that stand for the node's outputs, or None to leave the node
as it is. A rule `on` a backend wins over a common one. Functions without a rule are inlined.
"""

from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.core import DOMAIN
from specc.core.building import Body
from specc.errors import LegalizeError

Rule = Callable[[ir.Node, Body], Sequence[ir.Value] | None]

_RULES: dict[tuple[str | None, str], Rule] = {}
MAX_SWEEPS = 16


def rewrites(op: str, *, on: str | None = None) -> Callable[[Rule], Rule]:
    """Register a rule for op or function `op`, on backend `on` or (None) wherever it is asked for."""

    def register(rule: Rule) -> Rule:
        _RULES[on, op] = rule
        return rule

    return register


def rule_for(op: str, backend: str) -> Rule | None:
    """The backend's own rule for `op`, else the common one."""
    return _RULES.get((backend, op)) or _RULES.get((None, op))


def legalize(model: ir.Model, backend: str, ops: Collection[tuple[str, str]]) -> ir.Model:
    """Rewrite `model` in place until it holds only `ops` (domain, name).

    Raises LegalizeError once, listing every op that no rule could bring to the backend's vocabulary.
    """
    ir_passes.InlinePass(criteria=lambda f: rule_for(f.name, backend) is None)(model)
    for _ in range(MAX_SWEEPS):
        if not _sweep(model.graph, backend):
            break
    else:
        raise LegalizeError(f"{backend}: rules still change '{model.graph.name}' after {MAX_SWEEPS} sweeps")
    ir_passes.RemoveUnusedFunctionsPass()(model)
    ir_passes.CommonSubexpressionEliminationPass()(model)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    ir_passes.RemoveUnusedOpsetsPass()(model)
    _refuse_unknown(model.graph, backend, ops)
    return model


def _sweep(graph: ir.Graph, backend: str) -> int:
    changed = 0
    for node in list(graph):
        rule = rule_for(node.op_type, backend) if node.domain in ("", DOMAIN) else None
        if rule is None:
            continue
        body = Body()
        outputs = rule(node, body)
        if outputs is None:
            continue
        _replace(graph, node, outputs, body)
        changed += 1
    return changed


def _replace(graph: ir.Graph, node: ir.Node, outputs: Sequence[ir.Value], body: Body) -> None:
    graph.insert_before(node, body.nodes)
    for recorded in body.nodes:
        if recorded.domain:
            graph.opset_imports.setdefault(recorded.domain, 1)
    for old, new in zip(node.outputs, outputs, strict=True):
        name = old.name
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        if old.shape is not None and new.shape is None:
            new.shape, new.type = old.shape, old.type
        if any(new is v for v in graph.outputs):
            old.name, new.name = None, name
    graph.remove(node, safe=True)


def _refuse_unknown(graph: ir.Graph, backend: str, ops: Collection[tuple[str, str]]) -> None:
    unknown = sorted({(n.domain, n.op_type) for n in graph if (n.domain, n.op_type) not in ops})
    if unknown:
        names = ", ".join(f"{domain}.{op}" if domain else op for domain, op in unknown)
        raise LegalizeError(
            f"{backend}: no form for {names} in '{graph.name}'; add a rule to specc/legalize/{backend}/"
        )
