"""What a TensorRT bundle needs of the machine, read from its manifest before an engine is touched.

A program's requirements: the package and version its engine was built with ("tensorrt-rtx==1.7.1.116"), or is to be
built with on the device ("tensorrt>=11"), and the architectures it is for ("cuda:sm80|sm86").
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program
from specc_runtime.requirements import is_met

BUILD_SCRIPT = "build_tensorrt.py"  # file of a bundle that builds its portable programs
RTX, FULL = "tensorrt-rtx", "tensorrt"
_PACKAGE = re.compile(rf"({RTX}|{FULL})(==|>=)([0-9.]+)")
_ARCHITECTURES = re.compile(r"cuda:(sm\d+(?:\|sm\d+)*)")


@dataclass(frozen=True)
class Requirements:
    """package: "tensorrt-rtx" or "tensorrt". exact: whether it must be `version` itself, or that at least."""

    package: str
    exact: bool
    version: str
    architectures: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """What pip is asked for."""
        return f"{self.package}{'==' if self.exact else '>='}{self.version}"

    def check_version(self, found: str) -> None:
        """Raises EngineError unless `found` is a version of the package that reads the engines."""
        if not is_met(self.wanted, {self.package: found}):
            raise EngineError(
                f'the engines of this bundle need "{self.wanted}", and {found} is installed: pip install '
                f'"{self.wanted}", or compile the bundle again'
            )

    def check_architecture(self, found: str, target: str) -> None:
        """Raises EngineError unless the engines are for the GPU that was found."""
        if found not in self.architectures:
            raise EngineError(
                f"the engines of this bundle are for {', '.join(self.architectures)} (target {target}), and the GPU "
                f"here is {found}: compile with its own --target"
            )


def requirements(programs: Iterable[Program]) -> Requirements:
    """The requirements of a bundle's programs, which are all the same.

    Raises EngineError: a requirement this runtime does not know, or programs that differ.
    """
    found = {program.requires for program in programs}
    if len(found) != 1:
        raise EngineError("programs of this bundle need different engines; compile it again")
    return _parsed(found.pop())


def _parsed(features: Collection[str]) -> Requirements:
    packages = [match for feature in features if (match := _PACKAGE.fullmatch(feature))]
    machines = [match for feature in features if (match := _ARCHITECTURES.fullmatch(feature))]
    if len(packages) != 1 or len(machines) != 1 or len(features) != 2:
        raise EngineError(
            f"this runtime does not know what its programs require ({', '.join(features)}); upgrade specc-runtime"
        )
    package, relation, version = packages[0].groups()
    return Requirements(package, relation == "==", version, tuple(machines[0][1].split("|")))
