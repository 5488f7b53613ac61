import re
from dataclasses import replace
from pathlib import Path

from specc.backends import known_backends, load_backend
from specc.backends.page import backend_facts, backends_page
from specc.backends.record import Evidence
from specc.targets import known_targets, load_target
from specc_runtime.params import OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "backends.md"
TARGETS = [load_target(name) for name in known_targets()]


def test_the_committed_page_is_what_the_generator_yields() -> None:
    assert PAGE.read_text(encoding="utf-8") == backends_page(), "a record or a target changed: run `make docs`"


def test_every_backend_and_target_is_on_the_page() -> None:
    page = backends_page()
    for name in known_backends():
        assert f"\n## {name}\n" in page
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        named = set(re.findall(r"[\w-]+", section))
        assert {target.name for target in TARGETS if name in target.backends} <= named


def test_options_are_ones_a_request_has() -> None:
    for name in known_backends():
        for options in load_backend(name).programs.values():
            assert set(options) <= OPTIONS


def test_evidence_says_where_and_how() -> None:
    for name in known_backends():
        for item in load_backend(name).evidence:
            assert item.what
            assert item.where
            assert item.command


def test_a_backend_that_states_nothing_claims_nothing() -> None:
    silent = replace(load_backend("ort"), summary="", programs={}, weight_dtypes=frozenset(), evidence=())
    facts = backend_facts(silent, TARGETS)
    assert (facts["programs"], facts["weights"], facts["built"], facts["run"]) == ({}, [], [], [])


def test_what_was_built_is_told_from_what_was_run() -> None:
    evidence = (
        Evidence("built", "an engine", "a laptop", "make it"),
        Evidence("run", "tokens", "a board", "run it"),
        Evidence("checked", "numbers", "another engine", "check it"),
    )
    facts = backend_facts(replace(load_backend("ort"), evidence=evidence), TARGETS)
    assert [item["where"] for item in facts["built"]] == ["a laptop"]
    assert [item["where"] for item in facts["run"]] == ["a board"]
    assert [item["where"] for item in facts["checked"]] == ["another engine"]


def test_every_target_has_its_command_and_its_presets() -> None:
    facts = {target["name"]: target for target in backend_facts(load_backend("ort"), TARGETS)["targets"]}
    assert facts["cpu"]["command"] == "specc compile MODEL --draft D --target cpu -o OUT"
    assert facts["cpu"]["presets"]["reference"] == "all fp32"
    assert "mlp, embedding bf16/fp32" in facts["cpu"]["presets"]["balanced"]
    no_caches = backend_facts(replace(load_backend("ort"), state_dtypes=lambda _: frozenset()), [load_target("cpu")])
    assert no_caches["targets"][0]["presets"]["reference"] == "refused: no fp32 caches"
