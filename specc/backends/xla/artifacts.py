"""What is written of a program: JAX's export, and StableHLO for hosts without JAX."""

from dataclasses import replace

from jax import export

from specc.backends.xla.machine import Machine
from specc.backends.xla.program import FlatProgram
from specc.bundle.staging import Staging
from specc_runtime.manifest import Program

REQUIRES = "jax>=0.10"
EXPORT, STABLEHLO = ".jax_export", ".stablehlo"


def stage(program: Program, flat: FlatProgram, machine: Machine, staging: Staging) -> Program:
    """Export `flat` for one platform and write it; `program` completed. Its `file` comes without an ending."""
    exported = export.export(flat.jitted(), platforms=[machine.platform])(*flat.arguments())
    staging.add_file(program.file + EXPORT, bytes(exported.serialize()))
    staging.add_file(program.file + STABLEHLO, exported.mlir_module_serialized)
    return replace(
        program,
        file=program.file + EXPORT,
        stablehlo=program.file + STABLEHLO,
        inputs=flat.inputs,
        outputs=flat.outputs,
        state=flat.state,
        weights=flat.weights,
        donated=flat.donated,
        requires=(REQUIRES, f"platform={machine.platform}"),
    )
