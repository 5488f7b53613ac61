"""StableHLO compiled by the device's driver: what is left where a JAX can't read the export another one made."""

from io import BytesIO
from pathlib import Path
from typing import Any

import jax

from specc_runtime.engines.xla_executable import Run, flat_run


def compile_stablehlo(path: Path) -> Run:
    """The program in a file of portable StableHLO, its arguments and results flat. Raises what the driver raises.

    The file itself says which arguments are given up.
    """
    return flat_run(compiled_stablehlo(path), jax.devices()[0])


def compiled_stablehlo(path: Path) -> Any:
    """The same as the driver's own executable."""
    from jaxlib import xla_client
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    device: Any = jax.devices()[0]
    content = BytesIO()
    with ir.Context() as context:
        module: Any = stablehlo.deserialize_portable_artifact(context, path.read_bytes())
        module.operation.write_bytecode(content)
    devices, options = xla_client.DeviceList((device,)), xla_client.CompileOptions()
    return device.client.compile_and_load(content.getvalue(), devices, options)
