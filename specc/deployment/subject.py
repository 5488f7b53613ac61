"""A bundle as templates see it."""

import re
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import PurePosixPath

from specc.backends import load_backend
from specc.deployment.records import Asked, Subject
from specc.errors import OptionError, TargetError
from specc.render.packages import package_name, pinned
from specc.targets import Target, load_target
from specc_runtime.manifest import MAX_THREADS, Manifest

_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9])?")


def describe(manifest: Manifest, asked: Asked) -> Subject:
    """What templates are told of the bundle with `manifest`.

    Raises OptionError (a name that doesn't fit, a bundle path that is not absolute, threads, no round programs) or
    TargetError (a backend this version does not have).
    """
    backend = load_backend(manifest.backend)
    path = asked.bundle_path
    if path is not None and not (path.isprintable() and PurePosixPath(path).is_absolute()):
        raise OptionError(f"emit: bundle path {path!r} must be an absolute path on the serving host")
    if asked.threads is not None and not 1 <= asked.threads <= MAX_THREADS:
        raise OptionError(f"emit: threads is {asked.threads}: give a whole number from 1 to {MAX_THREADS}")
    if asked.fused and not any(program.kind == "round" for program in manifest.programs):
        raise OptionError(
            "emit: fused, but the bundle has no round programs; compile with --fuse, or leave --fused out"
        )
    built, target = all(program.built for program in manifest.programs), _target(manifest)
    container = None if target is None else backend.container(target, built)
    packages = container.packages if container else ()
    return Subject(
        name=_name(asked.name, manifest.verifier.name),
        manifest=manifest,
        bundle_path=path,
        threads=asked.threads,
        fused=asked.fused,
        container=container,
        on_cpu=target is not None and target.kind == "cpu",
        requirements=tuple(_requirements(manifest, packages)),
        compiler_requirements=tuple(_compiler_requirements(manifest, packages)),
        build_script=None if built else backend.build_script,
    )


def _name(asked: str | None, verifier: str) -> str:
    if asked is None:
        return re.sub(r"[^a-z0-9]+", "-", verifier.lower())[:64].strip("-") or "bundle"
    if not _NAME.fullmatch(asked):
        raise OptionError(f"emit: name {asked!r} must be 1 to 64 lower-case letters, digits and -_. inside")
    return asked


def _target(manifest: Manifest) -> Target | None:
    """What the bundle runs on; None for a target file of the user's own, unless it is a CPU: only they have threads."""
    try:
        return load_target(manifest.target)
    except TargetError:
        return None if manifest.threads is None else load_target("cpu")


def _requirements(manifest: Manifest, engine: tuple[str, ...]) -> Iterator[str]:
    yield _own_requirement("numpy")
    if manifest.tokenizer is not None:
        yield _own_requirement("tokenizers")
    yield from (pinned(package, manifest.toolchain) for package in engine)


def _compiler_requirements(manifest: Manifest, engine: tuple[str, ...]) -> Iterator[str]:
    """What compiled the bundle, and what of the engine's it left unsaid."""
    for package, version in manifest.toolchain.items():
        if package != "python":
            yield f"{package}=={version}"
    yield from (package for package in engine if package_name(package) not in manifest.toolchain)


def _own_requirement(package: str) -> str:
    """specc's own requirement of `package`: the runtime was tested with nothing else."""
    lines = [line.split(";")[0].strip() for line in requires("specc") or []]
    return next((line for line in lines if re.match(rf"{package}\b", line)), package)
