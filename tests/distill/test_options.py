from pathlib import Path
from typing import Any

import pytest

from specc.distill.options import DistillOptions
from specc.errors import OptionError


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"architecture": "featur"}, "did you mean 'feature'"),
        ({"device": "tpu"}, "known: cpu, cuda"),
        ({"minutes": 0.0}, "minutes: 0"),
        ({"head": 1}, "head: 1 rows"),
    ],
)
def test_what_cannot_be_trained_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DistillOptions("verifier", Path("out"), **asked)


def test_the_command_line_says_everything_that_was_asked() -> None:
    options = DistillOptions("org/model", Path("a b"), minutes=45, head=6000, text=(Path("t.txt"),), seed=7)
    assert options.command() == (
        "specc draft distill org/model -o 'a b' --minutes 45 --architecture feature --head 6000 --seed 7 "
        "--text t.txt --device cpu"
    )
