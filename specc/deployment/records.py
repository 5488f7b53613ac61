"""A kind of output `specc emit` makes, and what its templates are told of the bundle."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line reads kinds for its help: nothing large is imported for that
    from specc.backends.record import Container
    from specc_runtime.manifest import Manifest


@dataclass(frozen=True)
class Asked:
    """Choices of the user's that hold for every kind.

    name: what the output calls itself; None: from the verifier's name. bundle_path: where the bundle lies on the host
    that serves; None: a copy goes into the output. threads, fused: how the engine is loaded, as `specc run` has them.
    """

    name: str | None = None
    bundle_path: str | None = None
    threads: int | None = None
    fused: bool = False


@dataclass(frozen=True)
class Subject:
    """What every template is told.

    name: letters, digits and -_. only: fit for file names, units and image tags, which are lower case.
    bundle_path: an absolute path, or None for the copy. container: what a host needs to build and run the programs,
    None where nobody knows the target. on_cpu: whether the programs run on the CPU.
    requirements: lines of a requirements.txt for the runtime, the engine in the version that compiled the bundle.
    compiler_requirements: versions of the packages that compiled it. build_script: the bundle file that builds its
    portable programs on the device, if it has any.
    """

    name: str
    manifest: "Manifest"
    bundle_path: str | None
    threads: int | None
    fused: bool
    container: "Container | None"
    on_cpu: bool
    requirements: tuple[str, ...]
    compiler_requirements: tuple[str, ...]
    build_script: str | None

    @property
    def has_text(self) -> bool:
        """Whether the bundle takes and gives text, not ids alone."""
        return self.manifest.tokenizer is not None

    @property
    def docker_options(self) -> str:
        """Options of `docker run`, each followed by a space: the accelerator, and a bundle that the image lacks."""
        path = self.bundle_path and shlex.quote(self.bundle_path)
        mount = (f"-v {path}:{path}:ro",) if path else ()
        devices = self.container.devices if self.container else ()
        return "".join(f"{option} " for option in (*devices, *mount))


@dataclass(frozen=True)
class Kind:
    """One kind of output: a file under specc/deployment/kinds with this record as KIND, and its templates.

    summary, details: a line for the list of commands, and what its help adds. example: arguments after `specc emit`.
    files: template by path; "{name}" in a path is the subject's name. values: what its templates need beyond `subject`.
    bundle, runtime: folders the bundle and specc_runtime are copied to; None: not part of it.
    executable: paths that get the executable bit.
    """

    summary: str
    details: str
    example: str
    files: Mapping[str, str]
    values: Callable[[Subject], Mapping[str, object]] = lambda _subject: {}
    bundle: str | None = None
    runtime: str | None = None
    executable: tuple[str, ...] = ()
