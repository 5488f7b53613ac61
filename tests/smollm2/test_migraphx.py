"""The real model's programs for MIGraphX, run by ONNX Runtime in fp32: the ort bundle's tokens and logits."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from specc.options import CompileOptions, parse_draft, parse_precision
from specc.pipeline import compile_bundle
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import open_bundle
from tests.smollm2.conftest import MODEL
from tests.smollm2.test_greedy import PROMPTS

ENGINE = "specc_runtime.engines.migraphx_ort"
DRAFT, GAMMA, TOKENS = "slice:3", 4, 200
USED = (("prefill", 256), ("verify", 1), ("verify", GAMMA + 1), ("draft", 1), ("round", GAMMA + 1))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def portable(compiled: Callable[[str, str], Path], tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """One program of each kind on ONNX Runtime's CPU; `compiled` skips where the model is missing."""
    compiled(DRAFT, "reference")
    output = tmp_path_factory.mktemp("migraphx") / "b"
    compile_bundle(
        CompileOptions(
            model=MODEL,
            output=output,
            target="mi300x",
            draft=parse_draft(DRAFT),
            gammas=(GAMMA,),
            context=512,
            precision=parse_precision("reference"),
        )
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnxruntime, "get_available_providers", lambda: ["MIGraphXExecutionProvider"])
        patched.delitem(sys.modules, ENGINE, raising=False)
        second = importlib.import_module(ENGINE)
    del sys.modules[ENGINE]
    bundle = open_bundle(output)
    programs = [p for p in bundle.manifest.programs if (p.kind, p.width) in USED]
    return Engine(bundle, second.portable_programs(bundle, programs, "CPUExecutionProvider"))


@pytest.mark.parametrize("name", ["chat", "prose"])
def test_rounds_decode_the_ort_bundles_greedy_tokens(
    portable: Engine, engines: Callable[[str, str], Engine], name: str
) -> None:
    params = SamplingParams(max_new_tokens=TOKENS, ignore_eos=True)
    generation = portable.generate(PROMPTS[name], params, gamma=GAMMA).finish()
    assert generation.stats.spec_decode_num_drafts > 0
    assert generation.ids == engines(DRAFT, "reference").generate(PROMPTS[name], params, plain=True).finish().ids


def test_logits_are_the_ort_bundles(portable: Engine, engines: Callable[[str, str], Engine]) -> None:
    """Both in fp32, of a long prompt's last tokens: only the order of sums differs."""
    ids = np.array(portable.codec.encode(PROMPTS["chat"]))
    here, there = (engine._models._programs for engine in (portable, engines(DRAFT, "reference")))
    for programs in (here, there):
        programs.verify(ids[:-5], 0, 0)
    found, expected = (programs.verify(ids[-5:], len(ids) - 5, 5).copy() for programs in (here, there))
    assert np.abs(found - expected).max() <= 1e-4
    for programs in (here, there):
        programs.catchup("drafter", ids[:-1], 0)
    found, expected = (programs.draft("drafter", ids[-1:], len(ids) - 1).copy() for programs in (here, there))
    assert np.abs(found - expected).max() <= 1e-4
