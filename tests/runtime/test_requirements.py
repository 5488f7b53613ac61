import pytest

from specc_runtime.requirements import is_met, version_numbers

HERE = {"jax": "0.10.2", "tensorrt-rtx": "1.7.1.116", "migraphx": "2.15.0.dev+1", "cuda": "sm86", "gfx942": ""}


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("jax>=0.10", True),
        ("jax>=0.9.9", True),
        ("jax>=0.10.3", False),
        ("jax==0.10.2", True),
        ("jax==0.10", False),
        ("tensorrt-rtx==1.7.1.116", True),
        ("tensorrt-rtx==1.7.1.117", False),
        ("tensorrt-rtx>=1.7.1", True),
        ("migraphx==2.15.0", True),
        ("migraphx==2.15", True),
        ("migraphx>=2.16", False),
        ("cuda:sm80|sm86", True),
        ("cuda:sm80", False),
        ("cuda=sm86", True),
        ("gfx942", True),
        ("gfx90a", False),
        ("tensorrt>=1", False),
        ("jax~=0.10", False),
        ("", False),
    ],
)
def test_what_a_machine_has(requirement: str, met: bool) -> None:
    assert is_met(requirement, HERE) == met


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.15.0.dev+20250912-17-1234", (2, 15, 0)),
        ("2.16", (2, 16, 0)),
        ("", (0, 0, 0)),
        ("1.7.1.116", (1, 7, 1, 116)),
        ("0.11.0rc1", (0, 11, 0)),
    ],
)
def test_versions(text: str, expected: tuple[int, ...]) -> None:
    assert version_numbers(text) == expected
