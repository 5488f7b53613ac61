"""JSON files of a checkpoint: read whole, and refused unless they hold one object."""

import json
from pathlib import Path
from typing import Any

from specc.errors import CheckpointError


def read_text(path: Path, fix: str) -> str:
    """The file's text. Raises CheckpointError, ending in `fix`, if it is missing, a directory or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; {fix}") from None
    except IsADirectoryError:
        raise CheckpointError(f"{path}: expected a file, found a directory; {fix}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: can't be read ({error}); {fix}") from error


def read_json_object(path: Path, fix: str) -> dict[str, Any]:
    """The object in a JSON file. Raises CheckpointError, ending in `fix`, if it holds anything else."""
    return parse_json_object(read_text(path, fix), str(path), fix)


def parse_json_object(text: str | bytes, source: str, fix: str, unique_keys: bool = False) -> dict[str, Any]:
    """The object in `text`; `source` names where it came from. A key given twice is refused if `unique_keys`."""
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique_keys else None)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise CheckpointError(f"{source}: not JSON ({reason}); {fix}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{source}: expected a JSON object, found {type(value).__name__}; {fix}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"key {key!r} appears twice")
        value[key] = item
    return value
