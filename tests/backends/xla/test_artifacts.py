from dataclasses import replace

import numpy as np
import pytest

from specc.backends.xla.ahead import Built, _refusal
from specc.backends.xla.artifacts import Destination, _sizes
from specc.errors import BuildError, OptionError
from specc.targets import load_target
from tests.support.refusals import refuses

GIB = 2**30
SIZES = {"argument": 12 * GIB, "output": 3 * GIB, "alias": 3 * GIB, "temp": 2 * GIB, "code": GIB}


def test_headroom_counts_what_is_given_back_once() -> None:
    target = load_target("tpu-v5e")
    assert target.memory_gib == 16
    assert _sizes("round", Built(b"", SIZES, 1.0), target) == SIZES | {"headroom": GIB}


def test_a_program_larger_than_the_target_is_refused_with_the_sizes() -> None:
    built = Built(b"", SIZES | {"temp": 4 * GIB}, 1.0)
    with refuses(BuildError, "round does not fit the 16 GiB of tpu-v5e", "18,253,611,008 bytes", "--precision int8"):
        _sizes("round", built, load_target("tpu-v5e"))


def test_without_a_stated_memory_there_is_no_headroom() -> None:
    target = replace(load_target("tpu-v5e"), memory_gib=None)
    assert _sizes("round", Built(b"", SIZES, 1.0), target) == SIZES


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO\ntemporaries (22.36G) "
            "exceeds available HBM (15.75G).",
            ["step does not fit", "temporaries (22.36G) exceeds available HBM (15.75G)", "--precision int8"],
        ),
        ("RESOURCE_EXHAUSTED: Used 20.1G of 15.7G hbm. Exceeded", ["it needs 20.1G of 15.7G"]),
        ("INTERNAL: no tile", ["step: XLA's compiler fails: INTERNAL: no tile"]),
    ],
)
def test_what_the_compiler_says_is_told_in_one_line(message: str, told: list[str]) -> None:
    text = _refusal("step", message)
    assert "\n" not in text
    for part in told:
        assert part in text


def test_sizes_are_whole_numbers() -> None:
    sizes = _sizes("round", Built(b"", SIZES, 1.0), load_target("tpu-v6e"))
    assert all(isinstance(size, int) and not isinstance(size, np.integer) for size in sizes.values())


def test_options_without_a_compiler_here_are_refused() -> None:
    with refuses(OptionError, "programs for cpu are compiled where they are loaded; leave --xla-option out"):
        Destination.of(load_target("cpu"), {"xla_x": "1"})
