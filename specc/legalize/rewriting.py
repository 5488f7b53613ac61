"""The rule registry and the sweeps that apply it.

A rule rewrites one op or one function of domain `specc` that a backend lacks or has something better for:

    @rewrites("RMSNormalization", on="ort")
    def rms_normalization(node, body): ...

It records the replacement in `body` and returns the values that stand for the node's outputs, or None to leave the node
as it is. A rule `on` a backend wins over a common one, which serves the backends that lack the op. A function whose
calls no rule rewrites is inlined.
"""

from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir
import onnx_ir.passes.common as ir_passes

from specc.core import DOMAIN
from specc.core.building import Body
from specc.errors import LegalizeError

Rule = Callable[[ir.Node, Body], Sequence[ir.Value] | None]
Ops = Collection[tuple[str, str]]

_RULES: dict[tuple[str | None, str], Rule] = {}
MAX_SWEEPS = 16


def rewrites(op: str, *, on: str | None = None) -> Callable[[Rule], Rule]:
    """Register a rule for op or function `op`, on backend `on` or (None) on every backend that lacks it."""

    def register(rule: Rule) -> Rule:
        _RULES[on, op] = rule
        return rule

    return register


def rule_for(domain: str, op: str, backend: str, ops: Ops) -> Rule | None:
    """The backend's own rule for an op; else the common one, if the backend's vocabulary `ops` lacks the op."""
    if domain not in ("", DOMAIN):
        return None
    own = _RULES.get((backend, op))
    return own if own is not None or (domain, op) in ops else _RULES.get((None, op))


def legalize(model: ir.Model, backend: str, ops: Ops) -> ir.Model:
    """Rewrite `model` in place until it holds only `ops` (domain, name).

    Raises LegalizeError once, listing every op that no rule could bring to the backend's vocabulary.
    """
    ir_passes.InlinePass(criteria=lambda f: rule_for(f.domain, f.name, backend, ops) is None)(model)
    _sweep_until_stable(model.graph, backend, ops)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.InlinePass()(model)  # functions whose rules declined
    _sweep_until_stable(model.graph, backend, ops)
    model.functions.clear()
    ir_passes.CommonSubexpressionEliminationPass()(model)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    ir_passes.RemoveUnusedOpsetsPass()(model)
    _refuse_unknown(model.graph, backend, ops)
    return model


def _sweep_until_stable(graph: ir.Graph, backend: str, ops: Ops) -> None:
    for _ in range(MAX_SWEEPS):
        if not _sweep(graph, backend, ops):
            return
    raise LegalizeError(
        f"{backend}: rules still change '{graph.name}' after {MAX_SWEEPS} sweeps; two of them undo each other"
    )


def _sweep(graph: ir.Graph, backend: str, ops: Ops) -> int:
    changed = 0
    for node in list(graph):
        rule = rule_for(node.domain, node.op_type, backend, ops)
        body = Body()
        outputs = None if rule is None else rule(node, body)
        if outputs is not None:
            _replace(graph, node, outputs, body)
            changed += 1
    return changed


def _replace(graph: ir.Graph, node: ir.Node, outputs: Sequence[ir.Value], body: Body) -> None:
    graph.insert_before(node, body.nodes)
    for recorded in body.nodes:
        if recorded.domain:
            graph.opset_imports.setdefault(recorded.domain, 1)
    for old, new in zip(node.outputs, outputs, strict=True):
        name, is_output = old.name, old.is_graph_output()
        new.shape = old.shape if new.shape is None else new.shape
        new.type = old.type if new.type is None else new.type
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        if is_output:
            old.name, new.name = None, name
    graph.remove(node, safe=True)


def _refuse_unknown(graph: ir.Graph, backend: str, ops: Ops) -> None:
    unknown = sorted({(n.domain, n.op_type) for n in graph if (n.domain, n.op_type) not in ops})
    if unknown:
        names = ", ".join(f"{domain}.{op}" if domain else op for domain, op in unknown)
        raise LegalizeError(
            f"{backend}: no form for {names} in '{graph.name}'; add a rule to specc/legalize/{backend}/"
        )
