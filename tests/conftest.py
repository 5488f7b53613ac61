"""What every test process starts with, and what it is rid of on the way."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may need a network
os.environ.setdefault("OMP_NUM_THREADS", "1")  # models are tiny: threads of workers that share cores only wait
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nor an accelerator, whatever compilers are installed
# XLA's programs are tiny here, and many: they are compiled quickly, and once for all processes of a run.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.mkdtemp(prefix="specc-compiled-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# No deadline: processes share cores, so an example's wall time says nothing.
settings.register_profile("specc", deadline=None, print_blob=True)
settings.load_profile("specc")


@pytest.fixture(scope="module", autouse=True)
def no_compiled_programs_left() -> Iterator[None]:
    """JAX keeps whatever it compiled: a process would grow by gigabytes from module to module."""
    yield
    if (jax := sys.modules.get("jax")) is not None:
        jax.clear_caches()
