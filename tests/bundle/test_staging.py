import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from specc.bundle.leftovers import sibling
from specc.bundle.staging import Staging, check_output, staged
from specc.core.initializers import initializer
from specc.errors import CompileError
from specc_runtime.bundle import open_bundle
from specc_runtime.manifest import MANIFEST_NAME
from tests.support.manifests import small_manifest
from tests.support.refusals import refuses

FOREIGN_MANIFESTS = ("", "[]", "3", '{"name": "a web app"}', '{"files": {}}', '{"specc_version": "1"}', "[" * 100_000)


def nothing(_: int) -> None:
    pass


def graph(**weights: NDArray[np.generic]) -> ir.Model:
    values = [initializer(name, "mlp", array) for name, array in weights.items()]
    made = ir.Graph([], [], nodes=[], initializers=values, opset_imports={"": 24}, name="verifier")
    return ir.Model(made, ir_version=13)


def write_small_bundle(output: Path, *, replace: bool = False, word: str = "new") -> None:
    manifest = small_manifest()
    with staged(output, replace=replace) as staging:
        for name in manifest.files:
            staging.add_file(name, word)
        staging.write_manifest(dataclasses.replace(manifest, files=staging.file_entries(nothing)))


def test_a_bundle_appears_whole_and_opens(tmp_path: Path) -> None:
    output = tmp_path / "a" / "b" / "bundle"
    write_small_bundle(output)
    assert set(open_bundle(output, verify="hashes").manifest.files) == set(small_manifest().files)
    assert list(output.parent.iterdir()) == [output]


def test_nothing_is_at_the_output_before_the_end(tmp_path: Path) -> None:
    with staged(tmp_path / "b", replace=False) as staging:
        staging.add_file("x", "content")
        assert not (tmp_path / "b").exists()
        assert (sibling(tmp_path / "b", "tmp") / "x").read_text() == "content"
    assert (tmp_path / "b" / "x").read_text() == "content"


def test_a_failure_takes_the_made_parents_along(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(KeyError), staged(tmp_path / "mine" / "x" / "y" / "b", replace=False):
        raise KeyError
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_replacing_needs_to_be_asked_for(tmp_path: Path) -> None:
    write_small_bundle(tmp_path / "b", word="old")
    with refuses(CompileError, tmp_path / "b", "a bundle is there already", "--force"):
        write_small_bundle(tmp_path / "b")
    write_small_bundle(tmp_path / "b", replace=True)
    assert (tmp_path / "b" / "tokenizer.json").read_text() == "new"
    assert list(tmp_path.iterdir()) == [tmp_path / "b"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "dangling link", *FOREIGN_MANIFESTS])
def test_what_is_no_bundle_is_never_replaced(kind: str, force: bool, tmp_path: Path) -> None:
    output = tmp_path / "mine"
    if kind == "file":
        output.write_text("mine")
    elif kind == "dangling link":
        output.symlink_to(tmp_path / "nowhere")
    else:
        output.mkdir()
        if kind == "folder":
            (output / "thesis.tex").write_text("mine")
        elif kind in FOREIGN_MANIFESTS:
            (output / MANIFEST_NAME).write_text(kind)
    with refuses(CompileError, output, "exists and is no bundle", "another --output"):
        check_output(output, replace=force)


@pytest.mark.parametrize("name", ["notes.txt", "programs/notes.txt", "mine/notes.txt"])
def test_what_was_put_into_a_bundle_is_never_lost(name: str, tmp_path: Path) -> None:
    output = tmp_path / "b"
    write_small_bundle(output)
    (output / name).parent.mkdir(exist_ok=True)
    (output / name).write_text("mine")
    with refuses(CompileError, output / name, "no part of it", "move it"):
        write_small_bundle(output, replace=True)
    assert (output / name).read_text() == "mine"


def test_a_bundle_that_appeared_meanwhile_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "b"
    with refuses(CompileError, "a bundle is there already"), staged(output, replace=False):
        write_small_bundle(tmp_path / "other", word="of another compile")
        (tmp_path / "other").rename(output)
    assert (output / "tokenizer.json").read_text() == "of another compile"
    assert list(tmp_path.iterdir()) == [output]


def test_a_failed_second_rename_puts_the_old_bundle_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, rename = tmp_path / "b", Path.rename
    write_small_bundle(output, word="old")

    def interrupted(source: Path, target: Path) -> Path:
        if source == sibling(output, "tmp"):
            raise KeyboardInterrupt
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_small_bundle(output, replace=True)
    assert (output / "tokenizer.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("parent", ["/proc/specc", "file"])
def test_unwritable_parent(parent: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / parent / "b"
    with refuses(CompileError, output, "can't be written", "choose another --output"), staged(output, replace=False):
        pytest.fail("there is no folder to write into")


def test_graphs_share_the_weights_file(tmp_path: Path) -> None:
    staging, shared = Staging(tmp_path), np.arange(6, dtype=np.float32).reshape(2, 3)
    staging.add_graph("core/a.onnx", graph(shared=shared, own=shared + 1))
    staging.add_graph("programs/b.onnx", graph(shared=shared))
    written: list[int] = []
    staging.write_graphs(written.append)
    assert sum(written) == staging.weights.total_bytes == 2 * shared.nbytes
    for path in ("core/a.onnx", "programs/b.onnx"):
        model = onnx.load(tmp_path / path, load_external_data=False)
        onnx.load_external_data_for_model(model, str(tmp_path))
        tensors = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        np.testing.assert_array_equal(tensors["shared"], shared)


def test_entries_are_every_file_but_the_manifest(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.add_file("a.txt", "text")
    staging.add_file("sub/manifest.json", b"another file of that name")
    staging.add_array("ids.npy", np.arange(3))
    staging.add_file(MANIFEST_NAME, "{}")
    hashed: list[int] = []
    entries = staging.file_entries(hashed.append)
    assert list(entries) == ["a.txt", "ids.npy", "sub/manifest.json"]
    assert (entries["a.txt"].bytes, entries["a.txt"].sha256) == (4, hashlib.sha256(b"text").hexdigest())
    assert sum(hashed) == staging.total_bytes == sum(entry.bytes for entry in entries.values())
    np.testing.assert_array_equal(np.load(tmp_path / "ids.npy"), [0, 1, 2])


def test_a_graphs_check_sees_what_is_written_and_may_stop_it(tmp_path: Path) -> None:
    staging, seen = Staging(tmp_path), []

    def check(proto: onnx.ModelProto) -> None:
        seen.append([entry.key for entry in proto.graph.initializer[0].external_data])
        if len(seen) > 1:
            raise CompileError("not twice")

    staging.add_graph("first.onnx", graph(w=np.zeros(3, np.float32)), check)
    staging.write_graphs(nothing)
    assert seen == [["location", "offset", "length"]]
    assert (tmp_path / "first.onnx").is_file()
    staging.add_graph("second.onnx", graph(w=np.zeros(3, np.float32)), check)
    with pytest.raises(CompileError, match="not twice"):
        staging.write_graphs(nothing)
    assert not (tmp_path / "second.onnx").exists()
