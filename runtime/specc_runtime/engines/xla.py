"""XLA through JAX: static programs, their weights as arguments, caches given to each call and taken back in place.

A program is loaded as the executable that was built for this very machine, else as JAX's export, else as StableHLO; the
latter two are compiled here when it is first called. XLA sizes its own pool of threads on a CPU: `threads` changes
nothing.
"""

from specc_runtime.bundle import Bundle
from specc_runtime.engines.fixed_widths import CALL_ROWS, FixedWidthPrograms
from specc_runtime.errors import EngineError
from specc_runtime.manifest import Program
from specc_runtime.requirements import is_met, version_numbers
from specc_runtime.selection import usable_programs

INSTALL = "pip install 'jax>=0.10' flatbuffers"

try:
    import flatbuffers  # noqa: F401  (exports are read with it)
    import jax
except ImportError as error:
    raise EngineError(f"this bundle runs on JAX, which can't be imported ({error}): {INSTALL}") from None

from specc_runtime.engines.xla_call import Buffers, ProgramCall  # noqa: E402  (they need jax)
from specc_runtime.engines.xla_devices import Devices  # noqa: E402  (it too)
from specc_runtime.engines.xla_weights import Weights  # noqa: E402  (it too)

MIN_VERSION = (0, 10)
CPU_CALL_ROWS = 16  # rows that take a CPU as long as reading all weights does
IN_GRAPH = ("round", "loop")


def load(bundle: Bundle, *, threads: int | None, fused: bool) -> FixedWidthPrograms:
    """Open the programs of `bundle`; see `engines.load_programs`. Nothing is compiled before it is first called."""
    platform = _platform()
    _check_devices(bundle)
    programs = usable_programs(bundle.manifest, lambda feature: _has_feature(feature, platform))
    if not programs:
        raise EngineError(
            f"{bundle.root}: compiled for target {bundle.manifest.target!r}, and JAX {jax.__version__} finds "
            f"{platform!r} here: load it on such a machine, or compile with a target of this one"
        )
    devices = Devices(max(program.devices for program in programs))
    buffers, weights = Buffers(devices), Weights(bundle, devices)

    def call(program: Program) -> ProgramCall:
        return ProgramCall(bundle, program, buffers, weights, devices)

    used = [program for program in programs if fused or program.kind not in IN_GRAPH]
    call_rows = CPU_CALL_ROWS if platform == "cpu" else CALL_ROWS
    return FixedWidthPrograms(bundle, used, call, buffers.zero, call_rows)


def _platform() -> str:
    if version_numbers(jax.__version__) < MIN_VERSION:
        raise EngineError(f"JAX {jax.__version__} is too old for this bundle: {INSTALL}")
    try:
        found = jax.default_backend()
    except RuntimeError as error:
        raise EngineError(f"JAX {jax.__version__} does not start: {' '.join(str(error).split())[:300]}") from None
    if found != "gpu":
        return found
    return "rocm" if "rocm" in jax.devices()[0].client.platform_version.lower() else "cuda"


def _check_devices(bundle: Bundle) -> None:
    wanted, found = max(program.devices for program in bundle.manifest.programs), len(jax.devices())
    if found < wanted:
        pretend = f"; a CPU pretends to have them with XLA_FLAGS=--xla_force_host_platform_device_count={wanted}"
        raise EngineError(
            f"{bundle.root}: compiled for {wanted} devices of {bundle.manifest.target!r}, and JAX finds {found} here"
            + (pretend if bundle.manifest.target.startswith("cpu") else "")
        )


def _has_feature(feature: str, platform: str) -> bool:
    """Features that programs of this backend ask for: the oldest JAX, the platform, and how many devices there are."""
    here = {"jax": jax.__version__, "platform": platform, "devices": str(len(jax.devices()))}
    return is_met(feature, here)
