"""What compiling and checking report back, for the command line to print and for programs to read."""

from dataclasses import dataclass
from pathlib import Path

from specc_runtime.manifest import Manifest


@dataclass(frozen=True)
class CompileReport:
    """One finished compile. seconds: wall time. warnings: one line each, what the user should know but did not ask.

    Parts with dtypes and bytes, programs, files and measured distances are read from `manifest`.
    """

    output: Path
    manifest: Manifest
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of all files the manifest lists."""
        return sum(entry.bytes for entry in self.manifest.files.values())


@dataclass(frozen=True)
class CheckRow:
    """One judgement on a bundle. passed: None when the bundle has nothing it applies to. detail: what was measured."""

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True)
class CheckReport:
    """All judgements on a bundle, in the order they were made."""

    rows: tuple[CheckRow, ...]

    @property
    def passed(self) -> bool:
        """Whether no row failed."""
        return all(row.passed is not False for row in self.rows)
