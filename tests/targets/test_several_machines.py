import pytest

from specc.errors import TargetError
from specc.targets import load_target


def test_several_machines_are_one_target() -> None:
    """What all compute in, the least memory, each architecture once, and no rates."""
    target = load_target("rtx3090,rtx4090, rtx5090")
    assert (target.name, target.architecture) == ("rtx3090,rtx4090,rtx5090", "sm86,sm89,sm120")
    assert target.dtypes == ("fp32", "tf32", "bf16", "fp16", "int8")
    assert (target.backends, target.memory_gib, dict(target.tops)) == (("tensorrt",), 24, {})
    assert load_target("l4,rtx4090").architecture == "sm89"
    with pytest.raises(
        TargetError, match=r"targets a100,cpu: one bundle for several machines is built by tensorrt only"
    ):
        load_target("a100,cpu")
    with pytest.raises(TargetError, match="unknown target 'a10'"):
        load_target("a100,a10")
