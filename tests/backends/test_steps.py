"""The programs that step a decoder, as accelerators get them."""

import onnx_ir as ir
import pytest

from specc.backends.record import CoreModel
from specc.backends.steps import Step, drafter_steps, verifier_steps
from specc.core.building import value


def drafter(*, features: bool) -> CoreModel:
    state = [value("past.0.key", [1, 2, 9, 4], ir.DataType.FLOAT)]
    state += [value("past.features", [1, 9, 8], ir.DataType.FLOAT)] if features else []
    graph = ir.Graph(state, [], nodes=[], opset_imports={"": 24})
    return CoreModel("d", ir.Model(graph, ir_version=13), head_rows=1, cache_rows=9)


def test_a_verifier_is_fed_prompts_single_tokens_and_drafts() -> None:
    assert list(verifier_steps((2, 4), (32, 8))) == [
        Step("prefill", 8, 1), Step("prefill", 32, 1), Step("verify", 1, 1), Step("verify", 3, 3), Step("verify", 5, 5)
    ]  # fmt: skip


@pytest.mark.parametrize(("features", "known", "drafted"), [(False, [8], [1, 2]), (True, [1, 8], [1, 3, 5])])
def test_a_drafter_catches_up_without_logits_and_drafts_a_row_at_a_time(
    features: bool, known: list[int], drafted: list[int]
) -> None:
    """The first step takes what a fully accepted round leaves unfed: a token, or all that it fed on predictions."""
    assert list(drafter_steps(drafter(features=features), (2, 4), [8])) == [
        *(Step("catchup", width, 0) for width in known),
        *(Step("draft", width, 1) for width in drafted),
    ]
