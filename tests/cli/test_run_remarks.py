from collections.abc import Sequence
from dataclasses import replace

import pytest

from specc.cli.run_remarks import remarks
from specc_runtime.manifest import DrafterInfo, Manifest, Program
from specc_runtime.params import SamplingParams
from tests.support.manifests import small_manifest

GREEDY = SamplingParams()


def fused_manifest(gamma: int) -> Manifest:
    """Drafters `small` and `ngram`; programs for greedy rounds in which `small` drafts 2 or 4 tokens."""
    rounds = tuple(
        Program(f"r{n}", "round", "f", (), (), width=n + 1, drafter="small", accept="graph", options=("greedy",))
        for n in (2, 4)
    )
    drafters = {"small": DrafterInfo("model"), "ngram": DrafterInfo("ngram")}
    return replace(small_manifest(), gammas=(2, 4), gamma=gamma, drafters=drafters, programs=rounds)


def said(default: int, params: SamplingParams = GREEDY, **asked: object) -> Sequence[str]:
    way = {"drafter": None, "gamma": None, "plain": False, "fused": True} | asked
    return list(remarks(fused_manifest(default), params, way, []))


@pytest.mark.parametrize(
    ("default", "asked"),
    [(2, {}), (0, {"gamma": 4}), (0, {"gamma": "auto"}), (0, {"drafter": "small"}), (2, {"drafter": "small"})],
)
def test_rounds_that_run_are_not_remarked_on(default: int, asked: dict[str, object]) -> None:
    assert said(default, **asked) == []


@pytest.mark.parametrize(
    ("default", "asked"),
    [(0, {}), (2, {"gamma": 3}), (2, {"gamma": 0}), (2, {"drafter": "ngram"}), (2, {"plain": True})],
)
def test_rounds_that_cannot_run_are(default: int, asked: dict[str, object]) -> None:
    assert [line.split(":")[0] for line in said(default, **asked)] == ["--fused had no effect"]
    assert said(default, **asked, fused=False) == []


def test_a_round_must_serve_the_options() -> None:
    assert said(2, replace(GREEDY, presence_penalty=1.0)) != []
