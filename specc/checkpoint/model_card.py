"""The licence a model's README states in its front matter."""

from pathlib import Path

_FENCE = "---"


def read_licence(directory: Path) -> str | None:
    """The `license:` of README.md's YAML front matter (`license_name:` where that says "other"); None if unstated."""
    try:
        lines = (directory / "README.md").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    if not lines or lines[0].strip() != _FENCE:
        return None
    fields: dict[str, str] = {}
    for line in lines[1:]:
        if line.strip() == _FENCE:
            break
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key, value.strip().strip("\"'"))
    licence = fields.get("license") or None
    return fields.get("license_name") or licence if licence == "other" else licence
