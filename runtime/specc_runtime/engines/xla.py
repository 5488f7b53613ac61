"""XLA through JAX: static programs, their weights as arguments, caches given to each call and taken back in place.

A program is loaded as the executable that was built for this very machine, else as JAX's export, which is compiled here
when it is first called. XLA sizes its own pool of threads on a CPU: `threads` changes nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specc_runtime.bundle import Bundle
from specc_runtime.engines.base import RoundSampling, Tokens
from specc_runtime.engines.stepping import SteppedPrograms
from specc_runtime.errors import EngineError
from specc_runtime.manifest import VERIFIER, Program
from specc_runtime.requirements import is_met
from specc_runtime.selection import usable_programs

INSTALL = "pip install 'jax>=0.10' flatbuffers"

try:
    import flatbuffers  # noqa: F401  (exports are read with it)
    import jax
except ImportError as error:
    raise EngineError(f"this bundle runs on JAX, which can't be imported ({error}): {INSTALL}") from None

from specc_runtime.engines.xla_call import Buffers, ProgramCall  # noqa: E402  (they need jax)
from specc_runtime.engines.xla_devices import Devices  # noqa: E402
from specc_runtime.engines.xla_steps import Steps  # noqa: E402
from specc_runtime.engines.xla_weights import Weights  # noqa: E402

MIN_VERSION = (0, 10)
_PLATFORMS = {"gpu": "cuda"}


def load(bundle: Bundle, *, threads: int | None, fused: bool) -> "XlaPrograms":
    """Open the programs of `bundle`; see `engines.load_programs`."""
    platform = _platform()
    _check_devices(bundle)
    programs = usable_programs(bundle.manifest, lambda feature: _has_feature(feature, platform))
    if not programs:
        raise EngineError(
            f"{bundle.root}: compiled for target {bundle.manifest.target!r}, and JAX {jax.__version__} finds "
            f"{platform!r} here: load it on such a machine, or compile with a target of this one"
        )
    return XlaPrograms(bundle, programs, fused)


class XlaPrograms(SteppedPrograms):
    """`Programs` of an xla bundle."""

    def __init__(self, bundle: Bundle, programs: tuple[Program, ...], fused: bool) -> None:
        models = {key for key, drafter in bundle.manifest.drafters.items() if drafter.kind == "model"}
        self.rounds = tuple(p for p in programs if fused and p.kind == "round" and p.drafter in models)
        devices = Devices(max(program.devices for program in programs))
        self._buffers, weights = Buffers(devices), Weights(bundle, devices)

        def call(program: Program) -> ProgramCall:
            return ProgramCall(bundle, program, self._buffers, weights, devices)

        super().__init__({owner: Steps(owner, map(call, _steps_of(programs, owner))) for owner in (VERIFIER, *models)})
        self._rounds = {program.id: call(program) for program in self.rounds}

    def round(
        self,
        program: Program,
        tokens: Tokens,
        position: int,
        uniforms: NDArray[np.float32],
        sampling: RoundSampling,
    ) -> Tokens:
        ids, count = self._rounds[program.id](
            {
                "tokens": tokens[None],
                "position": [position],
                "uniforms": uniforms[None],
                "temperature": [sampling.temperature],
                "top_k": [sampling.top_k],
                "top_p": [sampling.top_p],
                "min_p": [sampling.min_p],
            }
        )
        emitted: Tokens = np.asarray(ids)[0, : int(np.asarray(count)[0])].astype(np.int64)
        return emitted

    def full_precision(self) -> None:
        """No program recomputes with fp32 caches of its own."""

    def reset(self) -> None:
        self._buffers.zero()


def _steps_of(programs: Sequence[Program], owner: str) -> list[Program]:
    kinds, drafter = (("prefill", "verify"), None) if owner == VERIFIER else (("catchup", "draft"), owner)
    return [p for p in programs if p.kind in kinds and p.drafter == drafter and p.batch == 1]


def _platform() -> str:
    try:
        version = tuple(int(part) for part in jax.__version__.split(".")[:2])
        found = jax.default_backend()
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"JAX {jax.__version__} does not start: {' '.join(str(error).split())[:300]}") from None
    if version < MIN_VERSION:
        raise EngineError(f"JAX {jax.__version__} is too old for this bundle: {INSTALL}")
    return _PLATFORMS.get(found, found)


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
