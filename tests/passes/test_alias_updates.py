"""Updates of one memory by inputs of their own: the steps in their order emit what the round emits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from specc.legalize.rewriting import legalize
from specc.legalize.tensorrt import OPS
from specc.passes.alias_updates import alias_updates, is_taken_again
from specc.passes.fuse_round import between_steps
from tests.passes.test_concat_tail import PROMPT, SAMPLED, caches, emitted, rounds
from tests.passes.test_fuse_round_features import fused, zero_state
from tests.support.function_models import Array, Run, ort_run
from tests.support.fused_rounds import GREEDY, FusedRounds, generate


def in_order(model: ir.Model) -> Run:
    """What steps on one memory compute in their order: a step's cache is what the step before left.

    Found by running the whole graph until every step was fed what it would have found.
    """
    run = ort_run(model)
    again = sorted(str(v.name) for v in model.graph.inputs if is_taken_again(str(v.name)))
    outputs = {str(v.name) for v in model.graph.outputs}

    def before(name: str) -> str:
        cache, _, step = name.removeprefix("drafter.past.").rpartition(".again_")
        return next(o for o in outputs if o.endswith(f".after_{step}.{cache}"))

    def ordered(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        fed = dict(inputs)
        for name in again:
            fed[name] = fed[name.rpartition(".again_")[0]]
        for _ in range(len({name.rpartition("_")[2] for name in again})):
            made = run(fed)
            fed |= {name: made[before(name)] for name in again}
        return run(fed)

    return ordered


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("gamma", "family"), [(1, "llama"), (2, "qwen3"), (4, "llama")])
def test_the_same_rounds(gamma: int, family: str, sampling: Any) -> None:
    whole, _ = rounds(gamma, family)
    aliased = alias_updates(whole.clone())
    given = {name: array for name, array in caches(aliased).items() if not is_taken_again(name)}
    made = FusedRounds(whole, in_order(aliased), given)
    assert generate(made, PROMPT, 40, gamma, sampling) == emitted(whole, gamma, sampling)


def test_every_update_has_an_input_and_an_output() -> None:
    aliased = alias_updates(rounds(4)[0].clone())
    scatters = [node for node in aliased.graph if node.op_type == "TensorScatter"]
    assert (
        len({node.inputs[0] for node in scatters}) == len(scatters) == 4 + 2 * 4
    )  # verifier's caches, drafter's steps
    assert {node.inputs[0] for node in scatters} <= set(aliased.graph.inputs)
    assert all(node.outputs[0].is_graph_output() for node in scatters)
    outputs = {str(v.name) for v in aliased.graph.outputs}
    assert {name for key in ("0.key", "0.value") for name in between_steps(key, 4)} <= outputs


def test_a_hidden_update_is_refused() -> None:
    graph = rounds(2)[0].clone()
    graph.graph.outputs.remove(next(v for v in graph.graph.outputs if v.name == between_steps("0.key", 2)[0]))
    with pytest.raises(ValueError, match=r"update 1 of cache 'drafter\.past\.0\.key' is no output"):
        alias_updates(graph)


def test_features_are_handed_from_step_to_step() -> None:
    graph = fused(3)
    aliased = legalize(alias_updates(graph.clone()), "tensorrt", OPS)
    made = [
        FusedRounds(graph, ort_run(legalize(graph.clone(), "tensorrt", OPS)), zero_state(graph)),
        FusedRounds(graph, in_order(aliased), zero_state(graph)),
    ]
    rng, text = np.random.default_rng(1), [5, 9, 33, 2, 60, 17]
    for _ in range(3):
        uniforms = rng.integers(0, 2**24, 7) * 2.0**-24
        expected, found = (each(text[-4:], len(text) - 4, uniforms, GREEDY) for each in made)
        assert found == expected
        text += found
