"""How much memory a process has held at most."""

import resource
import sys

_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, KiB elsewhere


def peak_bytes() -> int:
    """Largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
