"""From a bundle to the files around it."""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import specc_runtime
from specc.deployment.folder import Content, write_folder
from specc.deployment.kinds import load_kind
from specc.deployment.records import Asked, Kind, Subject
from specc.deployment.subject import describe
from specc.errors import CompileError
from specc.render import render
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.manifest import MANIFEST_NAME


@dataclass(frozen=True)
class Emission:
    """What was written: the folder, the name it goes by, and its files (a copied bundle or runtime as one folder)."""

    output: Path
    name: str
    files: tuple[str, ...]


def emit(kind: str, bundle: Path, output: Path, asked: Asked, *, force: bool = False) -> Emission:
    """Write output of `kind` for the bundle in folder `bundle` to the folder `output`.

    force: replace what an earlier emit wrote to `output`; nothing else is ever replaced.
    Raises OptionError, TargetError, BundleError, CompileError (`output` may not be written), OSError.
    """
    made, opened = load_kind(kind), open_bundle(bundle)
    subject = describe(opened.manifest, asked)
    output = Path(os.path.realpath(output))
    if output.is_relative_to(opened.root) or opened.root.is_relative_to(output):
        raise CompileError(f"{output}: overlaps the bundle it is about; choose another --output")
    texts = render_files(made, subject)
    executable = {path.format(name=subject.name) for path in made.executable}
    contents: dict[str, Content] = {**texts, **dict(_copies(made, opened, subject))}
    write_folder(output, contents, executable, force=force)
    folders = (f"{folder.format(name=subject.name)}/" for folder in _copied_folders(made, subject).values())
    return Emission(output, subject.name, tuple(sorted([*texts, *folders])))


def render_files(kind: Kind, subject: Subject) -> dict[str, str]:
    """The text of every file of `kind`, by its path in the output."""
    values = {"subject": subject, "manifest": subject.manifest, **kind.values(subject)}
    return {path.format(name=subject.name): render(template, **values) for path, template in kind.files.items()}


def _copied_folders(kind: Kind, subject: Subject) -> dict[str, str]:
    """What is copied, and to which folder."""
    folders = {"bundle": kind.bundle if subject.bundle_path is None else None, "runtime": kind.runtime}
    return {name: folder for name, folder in folders.items() if folder is not None}


def _copies(kind: Kind, bundle: Bundle, subject: Subject) -> Iterator[tuple[str, Path]]:
    """Files taken over as they are: their paths in the output, and where they lie."""
    package = Path(specc_runtime.__file__).parent
    sources = {
        "bundle": (bundle.root, [MANIFEST_NAME, *bundle.manifest.files, *_built_on_device(bundle)]),
        "runtime": (package, [file.relative_to(package).as_posix() for file in sorted(package.rglob("*.py"))]),
    }
    for what, folder in _copied_folders(kind, subject).items():
        root, names = sources[what]
        for name in names:
            yield f"{folder.format(name=subject.name)}/{name}", root / name


def _built_on_device(bundle: Bundle) -> list[str]:
    """What the bundle's script built of its programs: files beside them that the manifest does not list."""
    stems = {str(PurePosixPath(program.file).with_suffix("")) for program in bundle.manifest.programs}
    beside = {path for stem in stems for path in bundle.root.glob(f"{glob.escape(stem)}.*") if path.is_file()}
    names = (path.relative_to(bundle.root).as_posix() for path in beside)
    return sorted(name for name in names if name not in bundle.manifest.files)
