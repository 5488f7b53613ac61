"""Is JAX there?"""

import importlib.util

from specc.errors import TargetError

INSTALL = "pip install 'specc[xla]'"


def require_jax() -> None:
    """Raises TargetError, with what to install, if JAX or what its exports are written with is missing."""
    missing = [name for name in ("jax", "flatbuffers") if importlib.util.find_spec(name) is None]
    if missing:
        raise TargetError(f"backend 'xla' needs {' and '.join(missing)}, not installed here: {INSTALL}")
