import json
from collections.abc import Callable
from typing import Any

from specc.backends import usable_backends
from specc.targets import known_targets, load_target


def test_table_names_every_target(specc: Callable[..., Any]) -> None:
    outcome = specc("targets")
    assert outcome.code == 0
    below_the_rule = outcome.out[outcome.out.rindex("─") + 1 :]
    assert {line.split()[0] for line in below_the_rule.splitlines() if line.strip()} == set(known_targets())
    assert "\x1b" not in outcome.out


def test_json_holds_every_figure_and_source(specc: Callable[..., Any]) -> None:
    records = {record["name"]: record for record in json.loads(specc("targets", "--json").out)}
    h100 = load_target("h100")
    assert set(records) == set(known_targets())
    assert records["h100"]["tops"] == dict(h100.tops)
    assert records["h100"]["sources"] == dict(h100.sources)
    assert records["h100"]["memory_gib"] == 80
    assert records["cpu"]["memory_gib"] is None


def test_targets_that_can_be_compiled_for_are_told_apart(specc: Callable[..., Any]) -> None:
    ready = [record["name"] for record in json.loads(specc("targets", "--json").out) if record["ready"]]
    targets = [load_target(name) for name in known_targets()]
    assert ready == [target.name for target in targets if target.default_backend in usable_backends(target)]
    assert " ".join(specc("targets").out.split()).startswith(f"this version compiles for: {', '.join(ready)} target ")
