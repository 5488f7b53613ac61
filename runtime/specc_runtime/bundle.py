"""Opening a bundle: its manifest, and proof that its files are the ones the manifest describes."""

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specc_runtime.errors import BundleError, IntegrityError, ManifestError
from specc_runtime.manifest import MANIFEST_NAME, FileEntry, Manifest
from specc_runtime.manifest_reading import MAX_MANIFEST_BYTES, parse_manifest

Verify = Literal["sizes", "hashes"]
_HASH_CHUNK = 1 << 20


@dataclass(frozen=True)
class Bundle:
    """An opened bundle: its folder, resolved, and what its manifest says."""

    root: Path
    manifest: Manifest

    def path(self, name: str) -> Path:
        """Where the bundle file `name` (a key of manifest.files) lies."""
        return self.root / name


def open_bundle(path: str | Path, verify: Verify = "sizes") -> Bundle:
    """The bundle in folder `path`. "sizes" looks at every file's size, "hashes" reads every file.

    Raises BundleError (no bundle), ManifestError (manifest.json), IntegrityError (a file missing, changed or outside).
    """
    if verify not in ("sizes", "hashes"):
        raise BundleError(f"verify={verify!r}: expected 'sizes' or 'hashes'")
    root = Path(path).resolve()
    if not root.is_dir():
        found = "it is a file" if root.exists() else "nothing is there"
        raise BundleError(f"{path}: not a bundle folder, {found}; give the folder that `specc compile -o` wrote")
    manifest = parse_manifest(_read_manifest(root), str(root / MANIFEST_NAME))
    for name, entry in manifest.files.items():
        _check_file(root, name, entry, verify)
    return Bundle(root, manifest)


def _read_manifest(root: Path) -> bytes:
    path = root / MANIFEST_NAME
    try:
        with path.open("rb") as file:
            return file.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise ManifestError(f"{path}: missing; give the folder that `specc compile -o` wrote") from None
    except OSError as error:
        raise ManifestError(f"{path}: can't be read ({error.strerror}); re-copy or re-compile the bundle") from None


def _check_file(root: Path, name: str, entry: FileEntry, verify: Verify) -> None:
    path = root / name
    try:
        if not path.resolve().is_relative_to(root):
            raise IntegrityError(f"{path}: leads outside the bundle; re-copy it with its files instead of links")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise IntegrityError(f"{path}: not a plain file; re-copy or re-compile the bundle")
        if status.st_size != entry.bytes:
            raise IntegrityError(f"{path}: {status.st_size} bytes, not {entry.bytes}; re-copy or re-compile the bundle")
        if verify == "hashes" and _sha256(path) != entry.sha256:
            raise IntegrityError(f"{path}: changed since it was compiled (sha256); re-copy or re-compile the bundle")
    except FileNotFoundError:
        raise IntegrityError(f"{path}: missing; re-copy or re-compile the bundle") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise IntegrityError(f"{path}: can't be read ({error}); re-copy or re-compile the bundle") from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_HASH_CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()
