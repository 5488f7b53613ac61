from collections.abc import Callable
from dataclasses import dataclass

import pytest

from specc.cli.app import run


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def specc(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run one command line in this process: its exit code and what it printed."""

    def call(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
