from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir
import pytest

from specc.check.twin import check_twin
from specc.core.building import Body
from specc.legalize import rewriting
from specc.progress import Silent
from specc.reports import CheckRow
from specc_runtime.bundle import Bundle, open_bundle
from tests.support.tiny_models import FAMILIES, TinyBundles


def judged(tiny: TinyBundles, family: str = "llama", **fields: Any) -> CheckRow:
    bundle = open_bundle(tiny.bundle(tiny.model(family, **fields), "ngram", "int8"))
    (row,) = check_twin(bundle, Silent())
    return row


@pytest.mark.parametrize("family", FAMILIES)
def test_twin_of_a_family(family: str, tiny: TinyBundles) -> None:
    row = judged(tiny, family)
    assert row.passed
    assert row.detail.startswith(f"{family}, fp32: largest logit error ")


@pytest.mark.parametrize(
    "fields",
    [
        {"num_attention_heads": 4, "num_key_value_heads": 1},
        {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 24},
        {"attention_bias": True},
        {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    ],
)
def test_twin_keeps_what_makes_the_model_special(fields: dict[str, Any], tiny: TinyBundles) -> None:
    assert judged(tiny, **fields).passed


def test_a_wrong_lowering_is_found(tiny: TinyBundles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler installed here is on trial, whatever the bundle holds."""

    def other_epsilon(node: ir.Node, body: Body) -> Sequence[ir.Value]:
        return [body.op("SimplifiedLayerNormalization", *node.inputs, axis=-1, epsilon=0.05)]

    monkeypatch.setitem(rewriting._RULES, ("ort", "RMSNormalization"), other_epsilon)
    assert judged(tiny, rms_norm_eps=2e-5).passed is False


@pytest.mark.parametrize(
    ("backend", "target", "told"),
    [
        ("tensorrt", "rtx4090", "tensorrt has no caches in fp32"),
        ("migraphx", "mi300x", "programs of migraphx don't load before a bundle's script has built them"),
        ("ort", "a100", "ort has no caches in fp32"),
    ],
)
def test_a_backend_without_a_twin_in_fp32_is_not_failed(
    tiny: TinyBundles, backend: str, target: str, told: str
) -> None:
    bundle = open_bundle(tiny.bundle())
    elsewhere = Bundle(bundle.root, replace(bundle.manifest, backend=backend, target=target))
    (row,) = check_twin(elsewhere, Silent())
    assert row.passed is None
    assert told in row.detail
