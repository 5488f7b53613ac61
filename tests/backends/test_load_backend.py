import subprocess
import sys
from dataclasses import replace

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
def test_a_target_lists_the_backends_that_compile_for_it_and_no_others(name: str) -> None:
    target = load_target(name)
    assert set(usable_backends(target)) == set(target.backends)
    for asked in (None, *target.backends):
        assert choose_backend(target, asked).name == (asked or target.default_backend)


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (("tensorrt", "ort"), "needs backend 'tensorrt', which this version of specc does not take to a cpu; try"),
        (("newer",), "needs backend 'newer', which this version of specc does not have; `specc targets` says"),
    ],
)
def test_what_a_target_file_of_the_users_lists_in_vain_is_a_sentence(listed: tuple[str, ...], said: str) -> None:
    with refuses(TargetError, said):
        choose_backend(replace(load_target("cpu"), backends=listed, default_backend=listed[0]), None)


@pytest.mark.parametrize("name", known_targets())
def test_a_backend_asked_for_is_one_the_target_lists(name: str) -> None:
    target = load_target(name)
    with refuses(OptionError, f"unknown backend for target {name} 'cuda'", target.default_backend):
        choose_backend(target, "cuda")


def test_backends_are_imported_only_when_asked_for() -> None:
    script = "import specc.backends, sys; sys.exit('onnxruntime' in sys.modules or 'specc.backends.ort' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
