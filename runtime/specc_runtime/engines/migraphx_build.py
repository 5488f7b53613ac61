"""Building a bundle's programs into .mxr files on the machine that will run them, and noting so in its manifest.

A bundle's own script calls this, with what it was compiled for. Either MIGraphX's Python module or `migraphx-driver`
compiles; both without copies to and from the host, and without fast math, which makes 32-bit integers of 64-bit ones.
"""

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines.migraphx_machine import Machine, this_machine
from specc_runtime.errors import EngineError, first_line
from specc_runtime.manifest import MANIFEST_NAME, FileEntry, Manifest, Program
from specc_runtime.manifest_writing import manifest_json
from specc_runtime.requirements import version_numbers

DRIVER = "migraphx-driver"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class BuildOptions:
    """architecture, wavefront: of the GPU the bundle was compiled for; wavefront None: not known.

    exhaustive_tune: try every form of a kernel. with_driver: compile by migraphx-driver.
    """

    architecture: str
    wavefront: int | None = None
    exhaustive_tune: bool = False
    with_driver: bool = False


def build_programs(root: Path, options: BuildOptions, tell: Tell) -> Manifest:
    """Build every program of the bundle at `root`; the manifest as it now stands there. tell: progress, line by line.

    Programs built earlier, here or elsewhere, are built again. The manifest changes once, when all are built.
    Raises EngineError: another GPU, MIGraphX missing or too old, or a program it does not build.
    """
    bundle = open_bundle(root, "hashes")
    migraphx = _imported()
    machine = this_machine(getattr(migraphx, "__version__", ""))
    _check_machine(machine, options, bundle)
    version = ".".join(map(str, version_numbers(machine.version)))
    built = []
    for program in bundle.manifest.programs:
        source = Path(program.file).with_suffix(".onnx").name
        target = Path(program.file).with_suffix(".mxr").name
        tell(f"building {target}")
        _compile(migraphx, bundle.path(source), bundle.path(target), options)
        requires = (f"migraphx=={version}", options.architecture)
        built.append(replace(program, file=target, built=True, requires=requires))
    return _noted(bundle, tuple(built), version)


def _imported() -> Any:
    try:
        return import_module("migraphx")
    except ImportError as error:
        raise EngineError(
            f"MIGraphX's Python module can't be imported ({error}): install ROCm's migraphx package and add "
            "/opt/rocm/lib to PYTHONPATH"
        ) from None


def _check_machine(machine: Machine, options: BuildOptions, bundle: Bundle) -> None:
    oldest = {r for p in bundle.manifest.programs for r in p.requires if r.startswith("migraphx>=")}
    if lacking := machine.lacks([options.architecture, *sorted(oldest)]):
        raise EngineError(
            f"{bundle.root}: compiled for target {bundle.manifest.target!r}, which needs {' and '.join(lacking)}: "
            "build it on such a machine, or compile for this one"
        )
    here = machine.wavefronts[0]
    if options.wavefront is not None and here != options.wavefront:
        raise EngineError(
            f"{bundle.root}: {options.architecture} runs {here} threads in step here, and the target file says "
            f"{options.wavefront}: correct the file and compile again"
        )


def _compile(migraphx: Any, source: Path, target: Path, options: BuildOptions) -> None:
    """One .mxr, under its name only when it is whole."""
    half = target.with_name(f".{target.name}.tmp-{os.getpid()}")
    try:
        if options.with_driver:
            _drive(source, half, options.exhaustive_tune)
        else:
            program = migraphx.parse_onnx(str(source))
            program.compile(
                migraphx.get_target("gpu"),
                offload_copy=False,
                fast_math=False,
                exhaustive_tune=options.exhaustive_tune,
            )
            migraphx.save(program, str(half))
        half.replace(target)
    except (RuntimeError, OSError) as error:  # the engine's own exceptions are plain RuntimeErrors
        raise EngineError(
            f"{source}: MIGraphX does not build it ({first_line(error)}); upgrade MIGraphX or compile again"
        ) from error
    finally:
        half.unlink(missing_ok=True)


def _drive(source: Path, target: Path, exhaustive_tune: bool) -> None:
    command = [DRIVER, "compile", str(source), "--gpu", "--disable-fast-math", "--binary", "-o", str(target)]
    done = subprocess.run(
        command + ["--exhaustive-tune"] * exhaustive_tune, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{DRIVER}: {last[-1]}")


def _noted(bundle: Bundle, programs: tuple[Program, ...], version: str) -> Manifest:
    """The manifest with the programs as built, written over the old one in one step."""
    old = bundle.manifest
    files = dict(old.files)
    for program in programs:
        path = bundle.path(program.file)
        files[program.file] = FileEntry(path.stat().st_size, _sha256(path))
    manifest = replace(old, programs=programs, files=files, toolchain={**old.toolchain, "migraphx": version})
    half = bundle.root / f".{MANIFEST_NAME}.tmp-{os.getpid()}"
    half.write_text(manifest_json(manifest), encoding="utf-8")
    half.replace(bundle.root / MANIFEST_NAME)
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
