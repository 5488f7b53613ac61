"""What compiles that were killed left beside their output: swept up, or put back, by the next one."""

import os
import re
import shutil
from pathlib import Path
from typing import Literal

from specc_runtime.manifest import MANIFEST_NAME

Kind = Literal["tmp", "old"]  # a bundle being made; the one it replaces, on its way out


def sibling(output: Path, kind: Kind) -> Path:
    """The folder beside `output` that this process uses for `kind`."""
    return output.parent / f".{output.name}.{kind}-{os.getpid()}"


def clear_leftovers(output: Path) -> None:
    """Remove the folders of processes that are gone.

    A kill between the two renames of a replacement leaves no bundle at `output`: the old one is put back.
    """
    if not output.parent.is_dir():
        return
    named = re.compile(re.escape(f".{output.name}.") + r"(tmp|old)-(\d+)")
    for folder in sorted(output.parent.iterdir()):
        match = named.fullmatch(folder.name)
        if match is None or _running(int(match[2])):
            continue
        if match[1] == "old" and not output.exists() and (folder / MANIFEST_NAME).is_file():
            folder.rename(output)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _running(pid: int) -> bool:
    """Whether another process of that id is there. This one has made nothing yet: its id is a predecessor's."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
