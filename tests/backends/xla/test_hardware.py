from dataclasses import replace
from typing import Any

import pytest

from specc.backends.xla.cuda_description import cuda_description
from specc.backends.xla.hardware import Gpu, cache_rows, hardware_of
from specc.backends.xla.machine import platform_of
from specc.errors import TargetError
from specc.targets import known_targets, load_target
from tests.support.refusals import refuses

GPUS = {
    "a100": "major: 8 minor: 0",
    "h100": "major: 9 minor: 0",
    "h200": "major: 9 minor: 0",
    "b200": "major: 10 minor: 0",
}


@pytest.mark.parametrize("name", [n for n in known_targets() if "xla" in load_target(n).backends])
def test_every_target_file_is_understood(name: str) -> None:
    target = load_target(name)
    assert (hardware_of(target).gpu is not None) == (name in GPUS)
    assert bool(target.slices) == (name in GPUS or target.kind in ("cpu", "tpu"))


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_as_xla_wants_it_described(name: str) -> None:
    """Its memory is what the file states, but for what the driver keeps: 1 GiB, and on B200 two."""
    target = load_target(name)
    gpu = hardware_of(target).gpu
    assert gpu is not None
    assert target.memory_gib is not None
    assert 0 <= target.memory_gib * 2**30 - gpu.memory_bytes < 2 << 30
    assert gpu.source.startswith("https://")
    text = cuda_description(target, gpu)
    assert GPUS[name] in text
    assert ("ACCELERATED" in text) == (name != "a100")
    assert f"shared_memory_per_block_optin: {gpu.shared_memory_bytes - 1024}\n" in text
    assert text.count("{") == text.count("}") == 2


def test_rows_that_a_chip_wants() -> None:
    for name, products, caches in (("cpu", 1, 517), ("h100", 1, 517), ("tpu-v5e", 8, 640), ("tpu7x", 8, 640)):
        target = load_target(name)
        assert (hardware_of(target).matrix_rows, cache_rows(target, 517)) == (products, caches)
    assert cache_rows(load_target("tpu-v4"), 512) == 512


def test_platforms() -> None:
    names = ("cpu", "tpu-v5e", "a100", "mi300x")
    assert [platform_of(load_target(name)) for name in names] == ["cpu", "tpu", "cuda", "rocm"]


WHOLE = vars(Gpu(1, 1, 1.0, 1, 1, 1, "https://example.com"))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"chip_confi": "x"}, "[xla]: unknown key 'chip_confi'; did you mean 'chip_config'"),
        ({"chip_config": 3}, "[xla]: 'chip_config' is 3, which is of the wrong type"),
        ({"gpu": 3}, "[xla.gpu] must be a table, found 3"),
        ({"gpu": {"l2_bytes": 1}}, "[xla.gpu]: lacks multiprocessors, fp32_lanes, clock_ghz, shared_memory_bytes"),
        ({"gpu": WHOLE | {"l2_bytes": True}}, "[xla.gpu]: 'l2_bytes' is True, which is of the wrong type"),
        ({"gpu": WHOLE | {"l2_bytes": 1.5}}, "[xla.gpu]: 'l2_bytes' is 1.5, which is of the wrong type"),
    ],
)
def test_a_wrong_table_is_refused_with_its_fault(table: dict[str, Any], told: str) -> None:
    with refuses(TargetError, "target a100: " + told):
        hardware_of(replace(load_target("a100"), xla=table))


def test_a_whole_number_of_gigahertz_is_a_number() -> None:
    gpu = hardware_of(replace(load_target("a100"), xla={"gpu": WHOLE | {"clock_ghz": 2}})).gpu
    assert gpu is not None
    assert gpu.clock_ghz == 2
