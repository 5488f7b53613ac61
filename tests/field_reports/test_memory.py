"""Drafters whose weights or caches nobody counted (ggml-org/llama.cpp/pull/17017; NVIDIA/TensorRT-LLM/issues/9279).

And memory that the report leaves out (vllm-project/vllm/issues/9995, mlc-ai/mlc-llm/issues/1827).
"""

from pathlib import Path

import numpy as np
import pytest

from specc_runtime import Engine
from tests.support.fresh_process import peak_of_generating
from tests.support.tiny_models import TinyBundles, compiled

CONTEXT, DRAFTER_CONTEXT, GAMMA = 64, 48, 3
SLACK = GAMMA + 1 + 1  # rows a round may write beyond its position, and one the attention op repeats


@pytest.mark.parametrize(("kv", "itemsize"), [("fp32", 4), ("fp16", 2)])
def test_a_drafters_cache_is_as_large_as_its_own_sizes_say(tiny: TinyBundles, kv: str, itemsize: int) -> None:
    """Layers, heads and context are the drafter's, not the verifier's, and there is one cache however many programs."""
    layers, heads, head_dim = 2, 1, 16
    drafter = tiny.model(
        num_hidden_layers=layers, num_key_value_heads=heads, max_position_embeddings=DRAFTER_CONTEXT, seed=1
    )
    bundle = tiny.bundle(
        draft=str(drafter), precision=f"reference,kv={kv}", gammas=(1, GAMMA), fuse=True, context=CONTEXT
    )
    engine = Engine.load(bundle, fused=True)
    expected = 2 * layers * heads * (DRAFTER_CONTEXT + SLACK) * head_dim * itemsize
    (reported,) = (part.bytes for part in engine.manifest.precision if part.part == "drafter.kv")
    buffers = engine._models._programs._caches._buffers
    allocated = sum(np.asarray(array).nbytes for (owner, _), (array, _) in buffers.items() if owner == "drafter")
    assert reported == allocated == expected


def test_a_fresh_process_takes_what_the_report_says(tiny: TinyBundles, tmp_path: Path) -> None:
    """Within 5 %, the engine's own copies of weights and its working memory included."""
    report = compiled(tiny.model(), tmp_path / "b", gammas=(1, GAMMA), measure=True)
    assert report.manifest.resident_bytes is not None
    peak = peak_of_generating(tmp_path / "b", prompt_tokens=10, new_tokens=38)
    assert peak == pytest.approx(report.manifest.resident_bytes, rel=0.05, abs=0)
