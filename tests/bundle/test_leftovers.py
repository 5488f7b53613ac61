import os
import subprocess
import sys
from pathlib import Path

import pytest

from specc.bundle.leftovers import clear_leftovers, sibling
from specc_runtime.manifest import MANIFEST_NAME


@pytest.fixture(scope="module")
def gone() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def folder(path: Path, manifest: str | None = None) -> Path:
    path.mkdir()
    (path / "weights.safetensors").write_bytes(b"w")
    if manifest is not None:
        (path / MANIFEST_NAME).write_text(manifest)
    return path


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


def test_sibling_is_beside_the_output_and_hidden(tmp_path: Path) -> None:
    assert sibling(tmp_path / "b", "tmp") == tmp_path / f".b.tmp-{os.getpid()}"


def test_folders_of_dead_processes_go(tmp_path: Path, gone: int) -> None:
    folder(tmp_path / "b", "current")
    folder(tmp_path / f".b.tmp-{gone}")
    folder(tmp_path / f".b.tmp-{10**30}")
    folder(tmp_path / f".b.old-{gone}", "older")
    clear_leftovers(tmp_path / "b")
    assert names(tmp_path) == ["b"]
    assert (tmp_path / "b" / MANIFEST_NAME).read_text() == "current"


def test_folders_of_running_processes_stay(tmp_path: Path) -> None:
    folder(tmp_path / f".b.tmp-{os.getppid()}")
    folder(tmp_path / ".b.tmp-1")
    clear_leftovers(tmp_path / "b")
    assert names(tmp_path) == sorted([".b.tmp-1", f".b.tmp-{os.getppid()}"])


def test_own_id_is_a_predecessors(tmp_path: Path) -> None:
    """In a container every run may have the same process id."""
    folder(sibling(tmp_path / "b", "tmp"))
    clear_leftovers(tmp_path / "b")
    assert names(tmp_path) == []


def test_an_old_bundle_comes_back_when_nothing_took_its_place(tmp_path: Path, gone: int) -> None:
    folder(tmp_path / f".b.old-{gone}", "old")
    folder(tmp_path / f".b.tmp-{gone}", "new, complete but never in place")
    clear_leftovers(tmp_path / "b")
    assert names(tmp_path) == ["b"]
    assert (tmp_path / "b" / MANIFEST_NAME).read_text() == "old"


def test_an_old_folder_without_manifest_is_no_bundle(tmp_path: Path, gone: int) -> None:
    """Its removal was under way when the process died."""
    folder(tmp_path / f".b.old-{gone}")
    clear_leftovers(tmp_path / "b")
    assert names(tmp_path) == []


def test_what_only_looks_alike_stays(tmp_path: Path, gone: int) -> None:
    kept = [f".bb.tmp-{gone}", ".b.tmp-", ".b.tmp-x", f"b.tmp-{gone}", f".b.new-{gone}", f".b.tmp-{gone}.bak"]
    for name in kept:
        folder(tmp_path / name)
    folder(tmp_path / f".c+(.tmp-{gone}")
    clear_leftovers(tmp_path / "b")
    assert names(tmp_path) == sorted([*kept, f".c+(.tmp-{gone}"])
    clear_leftovers(tmp_path / "c+(")
    assert names(tmp_path) == sorted(kept)


def test_no_parent_no_work(tmp_path: Path) -> None:
    clear_leftovers(tmp_path / "missing" / "b")
    assert names(tmp_path) == []
