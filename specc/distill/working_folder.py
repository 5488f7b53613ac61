"""The folder a distillation works in: text shards, training state, and what they were made with."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from specc.distill.options import DistillOptions
from specc.errors import OptionError

_IDENTITY = "identity.json"
_CLOCK = "clock.json"


class WorkingFolder:
    """`OUTPUT.work`: everything that lets a killed run go on. Files appear whole or not at all."""

    def __init__(self, options: DistillOptions, verifier_sha256: str) -> None:
        """Open or begin it. Raises OptionError when it belongs to a run with other options or another verifier."""
        self.root = options.output.with_name(options.output.name + ".work")
        self.root.mkdir(parents=True, exist_ok=True)
        wanted = options.identity() | {"verifier_sha256": verifier_sha256}
        found = self.read_json(_IDENTITY)
        if found is None:
            self.write_json(_IDENTITY, wanted)
        elif found != json.loads(json.dumps(wanted)):
            other = next(key for key in wanted if found.get(key) != json.loads(json.dumps(wanted[key])))
            raise OptionError(
                f"{self.root}: holds a run with {other} {found.get(other)!r}, not {wanted[other]!r}; "
                "delete the folder to begin anew, or ask for the same"
            )

    def spent(self, phase: str) -> float:
        """Seconds of wall time that runs so far spent in a phase."""
        return float((self.read_json(_CLOCK) or {}).get(phase, 0.0))

    def spend(self, phase: str, seconds: float) -> None:
        """Set the seconds spent in a phase."""
        self.write_json(_CLOCK, (self.read_json(_CLOCK) or {}) | {phase: seconds})

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON object, None if there is none."""
        path = self.root / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON object."""
        write_whole(self.root / name, json.dumps(value, indent=1).encode())

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], note: Mapping[str, Any] | None = None) -> None:
        """Write tensors and a JSON note in one safetensors file."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        save_file({key: t.contiguous() for key, t in tensors.items()}, partial, {"note": json.dumps(note or {})})
        os.replace(partial, path)

    def read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and note of a file `write_tensors` wrote, None if there is none."""
        path = self.root / name
        if not path.exists():
            return None
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["note"])  # noqa: SIM118

    def names(self, pattern: str) -> list[str]:
        """Names of the files that match, sorted."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
