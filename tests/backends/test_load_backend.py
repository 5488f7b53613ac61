import subprocess
import sys

import pytest

from specc.backends import choose_backend, known_backends, load_backend, usable_backends
from specc.errors import OptionError, TargetError
from specc.targets import known_targets, load_target
from specc_runtime.engines import MODULES
from tests.support.refusals import refuses


@pytest.mark.parametrize("name", known_backends())
def test_a_backend_goes_by_the_name_it_is_found_under(name: str) -> None:
    assert load_backend(name).name == name
    assert name in MODULES, "the runtime has no engine for it"


@pytest.mark.parametrize("name", known_targets())
def test_every_target_has_a_backend_or_a_sentence(name: str) -> None:
    target = load_target(name)
    if target.default_backend in usable_backends(target):
        assert choose_backend(target, None).name == target.default_backend
    else:
        with refuses(
            TargetError,
            f"target {name!r} needs backend {target.default_backend!r}, which this version of specc does not have",
        ):
            choose_backend(target, None)


@pytest.mark.parametrize("name", known_targets())
def test_a_backend_asked_for_is_one_the_target_lists(name: str) -> None:
    target = load_target(name)
    for backend in usable_backends(target):
        assert choose_backend(target, backend).name == backend
    with refuses(OptionError, f"unknown backend for target {name} 'cuda'", target.default_backend):
        choose_backend(target, "cuda")


def test_backends_are_imported_only_when_asked_for() -> None:
    script = "import specc.backends, sys; sys.exit('onnxruntime' in sys.modules or 'specc.backends.ort' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
