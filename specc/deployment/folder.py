"""A folder of emitted files: written whole or not at all, and replaced only if nothing else is in it."""

import json
import shutil
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from specc.bundle.leftovers import clear_leftovers, sibling
from specc.errors import CompileError

LISTING = ".specc-emit.json"  # names the files an emit wrote: what the next one may replace

Content = str | Path  # text, or a file to copy


def write_folder(output: Path, contents: Mapping[str, Content], executable: Collection[str], *, force: bool) -> None:
    """Make folder `output` of `contents` by path. executable: paths that get the executable bit.

    force: an earlier output of this function may be replaced. Raises CompileError when `output` may not be, OSError.
    """
    clear_leftovers(output)
    _check(output, force=force)
    root, aside = sibling(output, "tmp"), sibling(output, "old")
    try:
        root.mkdir(parents=True)
        for path, content in contents.items():
            _write(root / path, content, executable=path in executable)
        _write(root / LISTING, json.dumps(sorted(contents), indent=1) + "\n")
        _check(output, force=force)
        if output.exists():
            output.rename(aside)
        root.rename(output)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        if aside.exists() and not output.exists():
            aside.rename(output)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _check(output: Path, *, force: bool) -> None:
    """Raise CompileError when something that no emit wrote stands at `output`, or anything without `force`."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    written = _listed(output)
    if written is None:
        raise CompileError(
            f"{output}: exists and was not written by emit; choose another --output or remove it yourself"
        )
    if not force:
        raise CompileError(
            f"{output}: an emit wrote there already; pass --force to replace it or choose another --output"
        )
    for path in sorted(output.rglob("*")):
        compiled = path.parent.name == "__pycache__"
        if not path.is_dir() and not compiled and path.relative_to(output).as_posix() not in written:
            raise CompileError(f"{path}: was not written by emit; move it or choose another --output")


def _listed(output: Path) -> set[str] | None:
    """What an earlier emit wrote to `output`; None if none did."""
    try:
        return {LISTING, *map(str, json.loads((output / LISTING).read_bytes()))}
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _write(path: Path, content: Content, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copyfile(content, path)
    else:
        path.write_text(content, encoding="utf-8")
    if executable:
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
