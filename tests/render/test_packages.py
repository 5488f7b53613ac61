import pytest

from specc.render.packages import package_name, pinned

VERSIONS = {"jax": "0.10.2", "tensorrt-rtx": "1.7"}


@pytest.mark.parametrize(
    ("asked", "name", "found"),
    [
        ("jax", "jax", "jax==0.10.2"),
        ("jax[tpu]>=0.9", "jax", "jax[tpu]==0.10.2"),
        ("tensorrt-rtx", "tensorrt-rtx", "tensorrt-rtx==1.7"),
        ("tensorrt>=11", "tensorrt", "tensorrt>=11"),
    ],
)
def test_what_compiled_a_bundle_is_what_runs_it(asked: str, name: str, found: str) -> None:
    assert (package_name(asked), pinned(asked, VERSIONS)) == (name, found)
