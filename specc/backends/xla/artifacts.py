"""What is written of a program: JAX's export, StableHLO for hosts without JAX, an executable where it can be made."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jax import export

from specc.backends.xla.ahead import Built, build
from specc.backends.xla.machine import Machine, machine_of
from specc.backends.xla.mesh import abstract_mesh
from specc.backends.xla.program import FlatProgram
from specc.backends.xla.topologies import Chip, chip_of, missing_compiler
from specc.bundle.staging import Staging
from specc.errors import BuildError, OptionError
from specc.targets import Target
from specc_runtime.manifest import Executable, Program

REQUIRES = "jax>=0.10"
EXPORT, STABLEHLO, EXECUTABLE = ".jax_export", ".stablehlo", ".executable"


@dataclass(frozen=True)
class Destination:
    """What programs are made for. chip: to compile for ahead of time; None: programs stay portable.

    options: of the compiler, by name.
    """

    target: Target
    machine: Machine
    chip: Chip | None
    options: Mapping[str, str]

    @classmethod
    def of(cls, target: Target, options: Mapping[str, str]) -> "Destination":
        """Of a target. Raises BuildError; OptionError: there are options and nothing is compiled here."""
        chip = chip_of(target)
        if options and chip is None:
            raise OptionError(
                f"xla-option: programs for {target.name} are compiled where they are loaded; leave --xla-option out"
                + (f", or install the compiler: {way_out}" if (way_out := missing_compiler(target)) else "")
            )
        return cls(target, machine_of(target), chip, options)


def stage(program: Program, flat: FlatProgram, to: Destination, staging: Staging) -> Program:
    """Write `flat` in every form there is; `program` completed. Its `file` comes without an ending.

    Raises BuildError: it does not fit the target's memory, or the compiler fails.
    """
    path, platform, devices = program.file, to.machine.platform, to.machine.devices
    mesh = abstract_mesh(devices)
    exported = export.export(flat.jitted(mesh), platforms=[platform])(*flat.arguments(mesh))
    staging.add_file(path + EXPORT, bytes(exported.serialize()))
    staging.add_file(path + STABLEHLO, exported.mlir_module_serialized)
    executable = None
    if to.chip is not None:
        built = build(program.id, flat, to.chip, to.options)
        staging.add_file(path + EXECUTABLE, built.executable)
        sizes = _sizes(program.id, built, to.target)
        executable = Executable(path + EXECUTABLE, to.chip.made_for, built.seconds, sizes, to.options)
    return replace(
        program,
        file=path + EXPORT,
        stablehlo=path + STABLEHLO,
        executable=executable,
        built=executable is not None,
        inputs=flat.inputs,
        outputs=flat.outputs,
        state=flat.state,
        weights=flat.weights,
        donated=flat.donated,
        devices=devices,
        requires=(REQUIRES, f"platform={platform}", *([f"devices>={devices}"] if devices > 1 else [])),
    )


def _sizes(name: str, built: Built, target: Target) -> dict[str, int]:
    """The compiler's sizes, and what they leave of the target's memory."""
    sizes = dict(built.sizes)
    if target.memory_gib is None:
        return sizes
    used = sizes["argument"] + sizes["output"] - sizes["alias"] + sizes["temp"] + sizes["code"]
    headroom = int(target.memory_gib * 2**30) - used
    if headroom < 0:
        listed = ", ".join(f"{size} {count:,}" for size, count in sizes.items())
        raise BuildError(
            f"{name} does not fit the {target.memory_gib:g} GiB of {target.name}: {used:,} bytes by the compiler's "
            f"account ({listed}); store more in 8 bits (--precision int8), shorten --context, or take a larger target"
        )
    return sizes | {"headroom": headroom}
