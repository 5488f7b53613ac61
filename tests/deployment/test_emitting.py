import os
import stat
from pathlib import Path
from typing import Any

import pytest

from specc.deployment.emitting import emit
from specc.deployment.folder import LISTING
from specc.deployment.kinds import known_kinds, load_kind
from specc.deployment.records import Asked
from specc.errors import CompileError, OptionError
from specc_runtime.bundle import open_bundle
from specc_runtime.errors import BundleError
from tests.support.manifests import write_bundle


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "small").mkdir()
    return write_bundle(tmp_path / "small")


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("kind", known_kinds())
def test_every_kind_writes_what_it_says(kind: str, small: Path, tmp_path: Path) -> None:
    written = emit(kind, small, tmp_path / "a" / "out", Asked(name="tiny"))
    assert written.output == tmp_path / "a" / "out"
    for name in written.files:
        path = written.output / name
        assert path.is_dir() if name.endswith("/") else path.is_file()
    copied = load_kind(kind).bundle
    assert copied is not None
    assert open_bundle(written.output / copied.format(name="tiny"), "hashes").manifest == open_bundle(small).manifest
    listed = tuple(name for name in written.files if name.endswith("/"))
    assert files_of(written.output) - {LISTING} == {
        name for name in files_of(written.output) if name in written.files or name.startswith(listed)
    } - {LISTING}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "small"], "nothing is left beside it"


@pytest.mark.parametrize("kind", known_kinds())
def test_a_bundle_that_stays_where_it_is_is_not_copied(kind: str, small: Path, tmp_path: Path) -> None:
    written = emit(kind, small, tmp_path / "out", Asked(bundle_path="/srv/model s"))
    assert not list(written.output.rglob("manifest.json"))
    texts = [path.read_text() for path in written.output.rglob("*") if path.is_file() and path.name != LISTING]
    assert any("/srv/model s" in text for text in texts)


def test_what_was_built_on_the_device_is_copied_too(small: Path, tmp_path: Path) -> None:
    (small / "programs" / "verifier.engine").write_bytes(b"built")
    (small / "notes.txt").write_text("mine")
    output = emit("docker", small, tmp_path / "out", Asked()).output
    assert (output / "bundle" / "programs" / "verifier.engine").read_bytes() == b"built"
    assert not (output / "bundle" / "notes.txt").exists()


def test_scripts_can_be_started(small: Path, tmp_path: Path) -> None:
    output = emit("systemd", small, tmp_path / "out", Asked(name="tiny")).output
    assert output.joinpath("install.sh").stat().st_mode & stat.S_IXUSR
    assert not output.joinpath("generate.py").stat().st_mode & stat.S_IXUSR


def test_an_earlier_output_is_replaced_only_when_forced(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    emit("triton", small, output, Asked(name="one"))
    with pytest.raises(CompileError, match="pass --force"):
        emit("docker", small, output, Asked())
    assert (output / "one").is_dir()
    pycache = output / "one" / "1" / "__pycache__"
    pycache.mkdir()
    (pycache / "model.cpython-311.pyc").write_bytes(b"")
    emit("docker", small, output, Asked(), force=True)
    assert not (output / "one").exists()
    assert (output / "Dockerfile").is_file()


def test_nothing_of_the_users_is_ever_replaced(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    emit("docker", small, output, Asked())
    mine = output / "notes.txt"
    mine.write_text("mine")
    with pytest.raises(CompileError, match=r"notes\.txt: was not written by emit"):
        emit("docker", small, output, Asked(), force=True)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "a").write_text("mine")
    with pytest.raises(CompileError, match="was not written by emit"):
        emit("docker", small, foreign, Asked(), force=True)
    with pytest.raises(CompileError, match="was not written by emit"):
        emit("docker", small, foreign / "a", Asked(), force=True)
    assert (mine.read_text(), (foreign / "a").read_text()) == ("mine", "mine")


def test_the_bundle_itself_is_no_output(small: Path) -> None:
    for output in (small, small / "triton", small.parent):
        with pytest.raises(CompileError, match="overlaps the bundle"):
            emit("triton", small, output, Asked(), force=True)


def test_a_failure_leaves_what_was_there(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    emit("docker", small, output, Asked())
    before = files_of(output)

    def full(*_arguments: Any) -> None:
        raise OSError(28, os.strerror(28), "weights")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        emit("docker", small, output, Asked(), force=True)
    assert files_of(output) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "small"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(name="Has Space"), "name 'Has Space' must be"),
        (Asked(name="../up"), "name"),
        (Asked(name=""), "name ''"),
        (Asked(bundle_path="relative"), "must be an absolute path"),
        (Asked(bundle_path="/a\nb"), "must be an absolute path"),
        (Asked(threads=0), "threads is 0"),
        (Asked(fused=True), "no round programs"),
    ],
)
def test_what_does_not_fit_is_refused(small: Path, tmp_path: Path, asked: Asked, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        emit("docker", small, tmp_path / "out", asked)
    assert not (tmp_path / "out").exists()


def test_an_unknown_kind_names_the_nearest(small: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="did you mean 'docker'"):
        emit("doker", small, tmp_path / "out", Asked())


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError):
        emit("docker", tmp_path, tmp_path / "out", Asked())
