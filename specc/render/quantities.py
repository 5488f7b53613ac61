"""Numbers as people read them."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def byte_count(count: int) -> str:
    """`count` bytes in the largest unit that leaves at least 1, e.g. "131.2 MiB"."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
