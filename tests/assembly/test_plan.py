"""What is decided before anything is built: defaults by backend, and refusals before a checkpoint is opened."""

from pathlib import Path
from typing import Any

import pytest

from specc.assembly.plan import Plan, made_plan
from specc.errors import OptionError
from specc.options import CompileOptions, parse_draft, parse_precision
from specc.progress import Silent
from tests.support.refusals import refuses
from tests.support.tiny_models import tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("plan") / "model"))


def plan(model: str, draft: str = "slice:1", **more: Any) -> Plan:
    return made_plan(CompileOptions(model=model, output=Path("nowhere"), draft=parse_draft(draft), **more), Silent())


def test_draft_lengths_share_weights_on_onnx_runtime_unless_they_are_rounds(model: str) -> None:
    assert plan(model).gammas == (1, 2, 4)
    assert plan(model, fuse=True).gammas == (4,)
    assert plan(model, target="a100").gammas == (4,)
    assert plan(model, target="a100", gammas=(2, 6)).gammas == (2, 6)


def test_slack_is_what_a_round_the_backend_and_the_chip_write_beyond_the_context(model: str) -> None:
    assert plan(model, gammas=(3,), context=40).slack == 4 + 1
    assert plan(model, gammas=(3,), context=40, target="cpu", backend="xla").slack == 4
    assert plan(model, gammas=(3,), context=40, target="tpu-v5e").slack == 128 - 40


def test_precision_is_the_backends_own_unless_asked_for(model: str) -> None:
    assert (plan(model).precision.name, plan(model, target="a100").precision.name) == ("reference", "balanced")
    assert plan(model, precision=parse_precision("kv=fp16")).precision.kv == "fp16"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"loop": True}, "loop: backend 'ort' has no programs that run whole generations"),
        ({"xla_options": {"a": "b"}}, "xla-option: backend 'ort' does not compile with XLA"),
        ({"draft": "ngram", "fuse": True}, "fuse: an n-gram drafter has no graph to fuse"),
        ({"draft": "ngram", "loop": True, "backend": "xla"}, "loop: an n-gram drafter has no graph to fuse"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_checkpoint_is_opened(asked: dict[str, Any], told: str) -> None:
    with refuses(OptionError, told):
        plan("no/such/model", **asked)


@pytest.mark.parametrize(
    ("precision", "target", "told"),
    [
        ("kv=bf16", "mi300x", "precision: kv=bf16 is not built by backend 'migraphx'; known: fp16, fp32"),
        ("mlp=int4", "cpu", "precision: mlp=int4 is not built by backend 'ort'; known: bf16, fp16, fp32, int8"),
        ("mlp=int4", "l4", "kv is that of reference: begin with another preset, e.g. --precision balanced,mlp=int4"),
    ],
)
def test_dtypes_that_a_backend_does_not_build_are_refused(model: str, precision: str, target: str, told: str) -> None:
    with refuses(OptionError, told):
        plan(model, precision=parse_precision(precision), target=target)
