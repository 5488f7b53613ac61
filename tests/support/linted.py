"""Rendered Python, judged by the linter and the formatter of this project."""

import subprocess
import sys
from pathlib import Path


def complaints(text: str, path: Path) -> str:
    """What ruff says of `text`, written to `path`; "" if nothing. Scripts may print, and need no docstrings."""
    path.write_text(text, encoding="utf-8")
    config = ["--config", str(Path(__file__).parents[2] / "pyproject.toml"), str(path)]
    checks = (["check", "--extend-ignore", "T20,D"], ["format", "--check"])
    runs = [
        subprocess.run([sys.executable, "-m", "ruff", *check, *config], capture_output=True, text=True, check=False)
        for check in checks
    ]
    return "".join(done.stdout + done.stderr for done in runs if done.returncode)
