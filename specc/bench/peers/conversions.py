"""Where a peer's own form of a checkpoint is kept, and made once."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from specc.checkpoint import open_checkpoint


def converted(cache: Path, model: str, form: str, make: Callable[[Path], None]) -> Path:
    """The file or folder that `make(path)` makes of checkpoint `model`; one made before from the same files is reused.

    form: names it, with its suffix. A conversion that fails leaves nothing behind.
    """
    path = cache / f"{_fingerprint(model)}-{form}"
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"unfinished-{path.name}")
    _remove(unfinished)
    try:
        make(unfinished)
        unfinished.rename(path)
    finally:
        _remove(unfinished)
    return path


def _fingerprint(model: str) -> str:
    """Of what the checkpoint says of its files: sizes and hashes of the small ones."""
    provenance = open_checkpoint(model).provenance
    told = json.dumps({"model": model, **provenance}, sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
