import pytest

from specc.render import byte_count


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (137_574_400, "131.2 MiB"),
        (3 << 30, "3.0 GiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_largest_unit_that_leaves_at_least_one(count: int, text: str) -> None:
    assert byte_count(count) == text
