"""Bundles for eight devices run on eight: a CPU pretends to have them, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specc_runtime import Engine, SamplingParams
from specc_runtime.errors import EngineError
from tests.support.refusals import refuses
from tests.support.tiny_models import compiled, tiny_model

PROMPT, TOKENS, CONTEXT = [3, 5, 9, 11], 16, 28
SHARED: dict[str, Any] = {"vocab_size": 304, "num_attention_heads": 8, "hidden_size": 64, "intermediate_size": 128}


def bundle_for(model: Path, path: Path, target: str, draft: str, **more: Any) -> Path:
    compiled(model, path, draft, gammas=(3,), target=target, backend="xla", context=CONTEXT, **more)
    return path


def on_eight(bundle: Path, way: str) -> dict[str, Any]:
    module = "tests.backends.xla.eight_devices"
    command = [sys.executable, "-m", module, str(bundle), way, json.dumps(PROMPT), str(TOKENS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["again"] == result["ids"]
    return result


def on_one(bundle: Path) -> list[int]:
    return list(
        Engine.load(bundle).generate(PROMPT, SamplingParams(max_new_tokens=TOKENS, ignore_eos=True)).finish().ids
    )


def test_key_heads_that_do_not_divide_are_whole_on_each(tmp_path: Path) -> None:
    """The same greedy text; two sums a layer, one for the embedding, and the logits put together: nothing else is sent.

    A run of layers is one loop, so a program holds what a layer sends once.
    """
    model = tiny_model(tmp_path / "model", tokenizer=None, num_key_value_heads=2, **SHARED)
    shared = bundle_for(model, tmp_path / "eight", "cpu:8", "ngram")
    done = on_eight(shared, "stepped")
    assert done["ids"] == on_one(bundle_for(model, tmp_path / "one", "cpu", "ngram"))
    assert len(done["sent"]) >= 2
    for sent in done["sent"].values():
        assert sorted(sent) == ["all-gather", *["all-reduce"] * 3]
    with refuses(EngineError, "compiled for 8 devices of 'cpu:8', and JAX finds 1 here", "device_count=8"):
        Engine.load(shared)


@pytest.mark.slow
@pytest.mark.parametrize("kv_heads", [8, 2])
@pytest.mark.parametrize(("family", "precision"), [("qwen2", "reference"), ("qwen3", "int8")])
def test_rounds_on_eight_devices(tmp_path: Path, family: str, precision: str, kv_heads: int) -> None:
    """Drafted by the verifier's own layers, which are cut as the verifier is."""
    model = tiny_model(tmp_path / "model", family, **SHARED | {"num_key_value_heads": kv_heads})
    given = {"draft": "slice:2", "precision": precision, "fuse": True}
    done = on_eight(bundle_for(model, tmp_path / "eight", "cpu:8", **given), "fused")
    assert done["ids"] == on_one(bundle_for(model, tmp_path / "one", "cpu", **given))
    steps = {name: sent for name, sent in done["sent"].items() if "round" not in name}
    assert len(steps) < len(done["sent"])
    assert all(sent.count("all-reduce") == 3 for sent in steps.values())
