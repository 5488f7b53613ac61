"""One program of an xla bundle, ready to be called, and the buffers that programs hand on to each other."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specc_runtime.bundle import Bundle
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.xla_devices import Devices, Spec, sizes
from specc_runtime.engines.xla_executable import is_made_for_here, load_executable
from specc_runtime.engines.xla_stablehlo import compile_stablehlo
from specc_runtime.engines.xla_weights import Weights
from specc_runtime.errors import EngineError, IntegrityError, first_line
from specc_runtime.manifest import Program, StateSpec


class Buffers:
    """The state of all programs, by owner and role. A call takes what it writes, and puts back what it leaves."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._arrays: dict[tuple[str, str], jax.Array | None] = {}
        self._specs: dict[tuple[str, str], StateSpec] = {}

    def declare(self, state: StateSpec) -> None:
        """Make the buffer of a program's state, if no other program has it."""
        key = (state.owner, state.role)
        if key not in self._specs:
            self._specs[key] = state
            self._arrays[key] = self._zeros(state)

    def take(self, states: Sequence[StateSpec]) -> list[jax.Array]:
        """The buffers, which are gone from here. Raises EngineError if a failed call has not put one back."""
        taken = []
        for state in states:
            array = self._arrays[state.owner, state.role]
            if array is None:
                raise EngineError("an earlier call failed and its caches are lost; load the bundle anew")
            taken.append(array)
            self._arrays[state.owner, state.role] = None
        return taken

    def put(self, states: Sequence[StateSpec], arrays: Sequence[jax.Array]) -> None:
        """What a call left."""
        for state, array in zip(states, arrays, strict=True):
            self._arrays[state.owner, state.role] = array

    def zero(self) -> None:
        """Every buffer as after loading."""
        for key, state in self._specs.items():
            self._arrays[key] = self._zeros(state)

    def _zeros(self, state: StateSpec) -> jax.Array:
        return jnp.zeros(state.shape, jnp.dtype(state.dtype), device=self._devices.holding(state))


class ProgramCall:
    """A program: inputs by name in, outputs by name out, each the caller's own."""

    def __init__(self, bundle: Bundle, program: Program, buffers: Buffers, weights: Weights, devices: Devices) -> None:
        self.program = program
        self._devices = devices
        self._path = bundle.path(program.file)
        built = program.executable
        self._executable = bundle.path(built.file) if built and is_made_for_here(built.made_for) else None
        self._stablehlo = None if program.stablehlo is None or program.devices > 1 else bundle.path(program.stablehlo)
        self._buffers = buffers
        self._store = weights
        self._inputs = [(spec.name, jnp.dtype(spec.dtype), sizes(spec)) for spec in program.inputs]
        for state in program.state:
            buffers.declare(state)
        self._check_arguments()

    def __call__(self, inputs: Arrays) -> Arrays:
        """Raises EngineError when the program fails; the caches are lost then."""
        fed = [np.asarray(inputs[name], dtype).reshape(shape) for name, dtype, shape in self._inputs]
        run, weights = self._compiled, self._weights
        state = self.program.state
        past = self._buffers.take(state)
        try:
            made: Sequence[jax.Array] = run(*fed, *past, *weights)
            outputs, left = made[: len(self.program.outputs)], made[len(self.program.outputs) :]
            for array in made:
                array.block_until_ready()
        except Exception as error:  # XLA's errors share no public base class
            raise EngineError(f"{self._path}: {first_line(error)}; run `specc check` on the bundle") from error
        self._buffers.put(state, left)
        return {spec.name: np.array(array) for spec, array in zip(self.program.outputs, outputs, strict=True)}

    @cached_property
    def _weights(self) -> list[jax.Array]:
        return [self._store[spec] for spec in self.program.weights]

    @cached_property
    def _compiled(self) -> Any:
        """The executable made for this machine, else the export, compiled, else the StableHLO, compiled.

        A driver may refuse an executable, and a JAX the export of one much older or newer.
        """
        if self._executable is not None:
            with suppress(Exception):  # of the driver's own kinds
                return load_executable(self._executable, self._devices, self.program)
        try:
            return self._exported()
        except Exception as error:  # a damaged export fails in as many ways as there are bytes
            if self._stablehlo is not None:
                with suppress(Exception):  # what is wrong with the export is what to say
                    return compile_stablehlo(self._stablehlo)
            raise EngineError(f"{self._path}: {first_line(error)}; re-copy or re-compile the bundle") from error

    def _exported(self) -> Any:
        """JAX forgets donation when it reads an export: it is asked for again."""
        exported = jax.export.deserialize(bytearray(self._path.read_bytes()))
        jitted = jax.jit(exported.call, donate_argnums=self.program.donated, keep_unused=True)
        specs: list[Spec] = [*self.program.inputs, *self.program.state, *self.program.weights]
        described = exported.in_avals if self.program.devices == 1 else map(self._devices.described, specs)
        return jitted.lower(*described).compile()

    def _check_arguments(self) -> None:
        first = len(self.program.inputs)
        if self.program.donated != tuple(range(first, first + len(self.program.state))):
            raise IntegrityError(
                f"program {self.program.id!r} gives up arguments {list(self.program.donated)}, which are not its "
                "state; re-compile the bundle"
            )
