"""A bundle being made: everything goes to a temporary folder that takes the bundle's name only when it is complete."""

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from specc.bundle.leftovers import sibling
from specc.bundle.weight_store import WeightStore
from specc.errors import CompileError
from specc_runtime.manifest import MANIFEST_NAME, WEIGHTS_FILE, FileEntry, Manifest
from specc_runtime.manifest_writing import manifest_json

_CHUNK = 1 << 22  # bytes hashed at a time


class Staging:
    """The folder a bundle is assembled in.

    Graphs are held back until the weights file is written, because they point into it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.weights = WeightStore()
        self._graphs: dict[str, tuple[ir.Model, Callable[[onnx.ModelProto], None] | None]] = {}

    def add_graph(self, path: str, model: ir.Model, check: Callable[[onnx.ModelProto], None] | None = None) -> None:
        """Register a graph to be saved at `path` (inside the bundle), its initializers in the weights file.

        check: given the model as it is about to be written; what it raises stops the compile.
        """
        self.weights.add(model)
        self._graphs[path] = model, check

    def add_file(self, path: str, content: bytes | str) -> None:
        """Write a file at once."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def add_array(self, path: str, array: NDArray[np.generic]) -> None:
        """Write a .npy file at once."""
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        self.add_file(path, content.getvalue())

    def write_graphs(self, advance: Callable[[int], None]) -> None:
        """Write the weights file, then every graph. advance: told the bytes of weights written."""
        self.weights.write(self.root / WEIGHTS_FILE, advance)
        for path, (model, check) in self._graphs.items():
            self.weights.point_into_file(model)
            proto = ir.to_proto(model)
            if check is not None:
                check(proto)
            self.add_file(path, proto.SerializeToString())

    @property
    def total_bytes(self) -> int:
        """Size of all files written so far."""
        return sum(path.stat().st_size for path in self._files())

    def file_entries(self, advance: Callable[[int], None]) -> dict[str, FileEntry]:
        """Size and sha256 of every file but the manifest, by path. advance: told the bytes hashed."""
        names = (path.relative_to(self.root).as_posix() for path in self._files())
        return {name: self.file_entry(name, advance) for name in names}

    def file_entry(self, path: str, advance: Callable[[int], None] = lambda amount: None) -> FileEntry:
        """The same of one file."""
        file = self.root / path
        return FileEntry(file.stat().st_size, _sha256(file, advance))

    def write_manifest(self, manifest: Manifest) -> None:
        """The last file: what it lists must be there. Written again, it replaces what was written."""
        self.add_file(MANIFEST_NAME, manifest_json(manifest))

    def _files(self) -> list[Path]:
        return sorted(p for p in self.root.rglob("*") if p.is_file() and p != self.root / MANIFEST_NAME)


@contextmanager
def staged(output: Path, *, replace: bool) -> Iterator[Staging]:
    """A Staging that becomes `output` when the block ends, and vanishes when it raises.

    replace: an existing bundle may be replaced; anything else that stands at `output` never is.
    Raises CompileError when the disk is full or `output` may not be written.
    """
    check_output(output, replace=replace)
    root, made = sibling(output, "tmp"), _missing_parents(output)
    try:
        root.mkdir(parents=True)
        yield Staging(root)
        check_output(output, replace=replace)  # another compile may have finished meanwhile
        _move_into_place(root, output)
    except BaseException as error:
        shutil.rmtree(root, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise CompileError(
                f"{output}: can't be written ({reason}); free disk space or choose another --output"
            ) from error
        raise


def check_output(output: Path, *, replace: bool) -> None:
    """Raise CompileError when `output` may not be written: only a bundle with nothing else in it is replaced."""
    if not output.exists() and not output.is_symlink():
        return
    files = listed_files(output)
    if files is None:
        raise CompileError(f"{output}: exists and is no bundle; choose another --output or remove it yourself")
    if not replace:
        raise CompileError(
            f"{output}: a bundle is there already; pass --force to replace it or choose another --output"
        )
    for path in sorted(output.rglob("*")):
        if not path.is_dir() and path.relative_to(output).as_posix() not in files:
            raise CompileError(f"{path}: lies in a bundle but is no part of it; move it or choose another --output")


def listed_files(folder: Path) -> set[str] | None:
    """The files of the bundle in `folder`, by any version of specc; None if it is none. Others have manifests too."""
    try:
        manifest = json.loads((folder / MANIFEST_NAME).read_bytes())
        return {MANIFEST_NAME, *manifest["files"]} if "specc_version" in manifest else None
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return None


def _missing_parents(output: Path) -> list[Path]:
    """The folders above `output` that are not there, innermost first."""
    return [parent for parent in output.parents if not parent.exists()]


def _move_into_place(root: Path, output: Path) -> None:
    """Rename, an old bundle aside first: a kill leaves the old bundle, none, or the new one, never a part of one."""
    aside = sibling(output, "old")
    try:
        if output.exists():
            output.rename(aside)
        root.rename(output)
    except BaseException:
        if aside.exists() and not output.exists():
            aside.rename(output)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _sha256(path: Path, advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()
