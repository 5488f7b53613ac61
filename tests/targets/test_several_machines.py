import pytest

from specc.backends import choose_backend, usable_backends
from specc.errors import TargetError
from specc.targets import load_target
from tests.support.refusals import refuses


def test_several_machines_are_one_target() -> None:
    """What all compute in, the least memory, each architecture once, and no rates."""
    target = load_target("rtx3090,rtx4090, rtx5090")
    assert (target.name, target.architecture) == ("rtx3090,rtx4090,rtx5090", "sm86,sm89,sm120")
    assert target.dtypes == ("fp32", "tf32", "bf16", "fp16", "int8")
    assert (target.default_backend, target.memory_gib, dict(target.tops)) == ("tensorrt", 24, {})
    assert usable_backends(target) == ("tensorrt",)
    assert target.is_several
    assert not load_target("l4").is_several
    assert load_target("l4,rtx4090").architecture == "sm89"
    with pytest.raises(TargetError, match="unknown target 'a10'"):
        load_target("a100,a10")


def test_machines_that_no_backend_serves_together_are_refused() -> None:
    with refuses(TargetError, "targets l4,l4: one is named twice"):
        load_target("l4,l4")
    with refuses(TargetError, "targets rtx2080,tpu-v4: no backend builds for all of them"):
        load_target("rtx2080,tpu-v4")
    with refuses(TargetError, "needs backend 'migraphx', which", "several machines at once; compile a bundle for each"):
        choose_backend(load_target("mi300x,mi250x"), None)
