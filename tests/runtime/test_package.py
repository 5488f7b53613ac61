"""What `import specc_runtime` costs and offers."""

import subprocess
import sys

import pytest

import specc_runtime


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", specc_runtime.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(specc_runtime, name).__name__ == name


def test_public_names() -> None:
    assert dir(specc_runtime) == specc_runtime.__all__ == sorted(specc_runtime.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Egnine'"):
        _ = specc_runtime.Egnine


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert run("import specc_runtime, sys; print('numpy' in sys.modules)") == "False\n"


def test_importing_the_engine_brings_numpy_and_no_other_package() -> None:
    code = """
import sys
import numpy
before = set(sys.modules)
from specc_runtime import Engine, SamplingParams
added = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(added - set(sys.stdlib_module_names) - {"numpy"}))
"""
    assert run(code) == "['specc_runtime']\n"


def test_the_import_takes_less_than_the_promised_time() -> None:
    """0.3 s including numpy; the best of three, as a machine may be busy."""
    code = "import time; start = time.process_time(); import specc_runtime.engine; print(time.process_time() - start)"
    assert min(float(run(code)) for _ in range(3)) < 0.3
