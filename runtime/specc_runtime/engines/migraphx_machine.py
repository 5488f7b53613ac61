"""The AMD GPUs of this machine and its MIGraphX: what a program asks for, compared with what is here.

An .mxr neither stores nor checks what it was built for, so nothing of it is loaded before this was asked.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specc_runtime.requirements import is_met

BUILD_SCRIPT = "build_migraphx.py"  # file of a bundle that builds its programs
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")  # the second counts what the first leaves
KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")  # the kernel driver's list of CPUs and GPUs


@dataclass(frozen=True)
class Machine:
    """version: MIGraphX's, as it names itself, "" without it.

    gpus: architectures of the visible GPUs, of which the first is used. wavefronts: threads that run in step on each.
    """

    version: str
    gpus: tuple[str, ...]
    wavefronts: tuple[int, ...]

    def has(self, requirement: str) -> bool:
        """Whether a requirement ("migraphx>=2.15", "migraphx==2.15.0", "gfx942") is met; no unknown one is."""
        return is_met(requirement, {"migraphx": self.version} | dict.fromkeys(self.gpus[:1], ""))

    def lacks(self, requirements: Iterable[str]) -> list[str]:
        """The requirements that are not met, each with what was found."""
        gpu = self.gpus[0] if self.gpus else "no AMD GPU"
        found = {True: f"MIGraphX {self.version}" if self.version else "no MIGraphX", False: gpu}
        return [f"{r} (found {found[r.startswith('migraphx')]})" for r in requirements if not self.has(r)]


def this_machine(version: str) -> Machine:
    """What the kernel driver lists and the environment leaves visible; version: of the MIGraphX that was imported."""
    properties = [_properties(node) for node in sorted(KFD_NODES.glob("*/properties"), key=_number)]
    gpus = [p for p in properties if p.get("gfx_target_version")]
    for variable in _VISIBLE:
        gpus = _visible(gpus, os.environ.get(variable, ""))
    return Machine(
        version,
        tuple(architecture(p["gfx_target_version"]) for p in gpus),
        tuple(p.get("wave_front_size", 0) for p in gpus),
    )


def _visible(gpus: Sequence[dict[str, int]], listed: str) -> list[dict[str, int]]:
    """Those a list of device numbers leaves, in its order; all of them for any other text (UUIDs, nothing)."""
    chosen = [item.strip() for item in listed.split(",")]
    if not all(item.isdecimal() for item in chosen):
        return list(gpus)
    return [gpus[int(item)] for item in chosen if int(item) < len(gpus)]


def architecture(target_version: int) -> str:
    """The compilers' name of a driver's number: 90402 is gfx942, 90010 is gfx90a, 110000 is gfx1100."""
    major, minor, stepping = target_version // 10000, target_version // 100 % 100, target_version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def _number(properties: Path) -> int:
    return int(properties.parent.name) if properties.parent.name.isdecimal() else 0


def _properties(path: Path) -> dict[str, int]:
    """A node's properties; none where they may not be read, as in a container without the devices."""
    try:
        pairs = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError):
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
