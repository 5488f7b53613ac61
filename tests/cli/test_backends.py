import json
from collections.abc import Callable
from typing import Any

from specc.backends import known_backends
from specc.backends.page import backends_page


def test_table_names_every_backend(specc: Callable[..., Any]) -> None:
    outcome = specc("backends")
    assert outcome.code == 0
    assert set(known_backends()) <= {line.split()[0] for line in outcome.out.splitlines() if line.strip()}


def test_json_holds_the_facts(specc: Callable[..., Any]) -> None:
    facts = {record["name"]: record for record in json.loads(specc("backends", "--json").out)}
    assert set(facts) == set(known_backends())
    assert "verify" in facts["ort"]["programs"]


def test_markdown_is_the_page(specc: Callable[..., Any]) -> None:
    assert specc("backends", "--markdown").out == backends_page()


def test_one_form_at_a_time(specc: Callable[..., Any]) -> None:
    outcome = specc("backends", "--markdown", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert "keep one" in outcome.err
