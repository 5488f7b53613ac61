import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specc.deployment.kinds import known_kinds
from tests.support.manifests import write_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "bundle").mkdir()
    return write_bundle(tmp_path / "bundle")


@pytest.mark.parametrize("kind", known_kinds())
def test_what_was_written_is_listed(specc: Callable[..., Any], bundle: Path, tmp_path: Path, kind: str) -> None:
    output = tmp_path / "out"
    outcome = specc("emit", kind, bundle, "-o", output)
    assert (outcome.code, outcome.err) == (0, "")
    assert all(Path(line).exists() for line in outcome.out.splitlines())
    record = json.loads(specc("emit", kind, bundle, "-o", output, "--force", "--json", "--name", "x").out)
    assert (record["output"], record["name"]) == (str(output), "x")
    assert len(record["files"]) == len(outcome.out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--name", "No Spaces"), 2, "name 'No Spaces'"),
        (("--bundle-path", "here"), 2, "absolute path"),
        (("--threads", 1000), 2, "threads is 1000"),
        (("--fused",), 2, "no round programs"),
    ],
)
def test_failures_are_one_line(
    specc: Callable[..., Any], bundle: Path, tmp_path: Path, arguments: tuple[object, ...], code: int, message: str
) -> None:
    outcome = specc("emit", "docker", bundle, "-o", tmp_path / "out", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert len(outcome.err.splitlines()) == 1
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


def test_an_output_is_not_overwritten(specc: Callable[..., Any], bundle: Path, tmp_path: Path) -> None:
    assert specc("emit", "docker", bundle, "-o", tmp_path / "out").code == 0
    again = specc("emit", "docker", bundle, "-o", tmp_path / "out")
    assert (again.code, "--force" in again.err) == (1, True)


def test_unknown_kind(specc: Callable[..., Any], bundle: Path) -> None:
    assert specc("emit", "helm", bundle, "-o", "x").code == 2


def test_help_names_every_kind_with_an_example(specc: Callable[..., Any]) -> None:
    text = specc("emit", "--help").out
    for kind in known_kinds():
        assert f"specc emit {kind} " in text
        assert f"specc emit {kind} " in specc("emit", kind, "--help").out
