import subprocess
import sys

import pytest

from specc.backends import known_backends, load_backend
from specc.errors import TargetError
from specc.targets import known_targets, load_target
from specc_runtime.engines import MODULES
from tests.support.refusals import refuses


@pytest.mark.parametrize("name", known_backends())
def test_a_backend_goes_by_the_name_it_is_found_under(name: str) -> None:
    assert load_backend(name, "cpu").name == name
    assert name in MODULES, "the runtime has no engine for it"


@pytest.mark.parametrize("target", known_targets())
def test_every_target_has_a_backend_or_a_sentence(target: str) -> None:
    wanted = load_target(target).default_backend
    if wanted in known_backends():
        assert load_backend(wanted, target).name == wanted
    else:
        with refuses(
            TargetError,
            f"target {target!r} needs backend {wanted!r}",
            "which this version of specc does not have; known: ort",
        ):
            load_backend(wanted, target)


def test_backends_are_imported_only_when_asked_for() -> None:
    script = "import specc.backends, sys; sys.exit('onnxruntime' in sys.modules or 'specc.backends.ort' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
