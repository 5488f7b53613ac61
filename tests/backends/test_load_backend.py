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
def test_every_backend_of_a_target_is_there_or_a_sentence(name: str) -> None:
    target = load_target(name)
    for asked in (None, *target.backends):
        backend = asked or target.default_backend
        if backend in usable_backends(target):
            assert choose_backend(target, asked).name == backend
        else:
            lacking = f"does not take to a {target.kind}" if backend in known_backends() else "does not have"
            with refuses(
                TargetError, f"needs backend {backend!r}, which this version of specc {lacking}; try --backend"
            ):
                choose_backend(target, asked)


@pytest.mark.parametrize("name", known_targets())
def test_a_backend_asked_for_is_one_the_target_lists(name: str) -> None:
    target = load_target(name)
    with refuses(OptionError, f"unknown backend for target {name} 'cuda'", target.default_backend):
        choose_backend(target, "cuda")


def test_backends_are_imported_only_when_asked_for() -> None:
    script = "import specc.backends, sys; sys.exit('onnxruntime' in sys.modules or 'specc.backends.ort' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
