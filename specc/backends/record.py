"""What a backend is to the pipeline."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from specc.backends.arithmetic import Computed
from specc.bundle.staging import Staging
from specc.core.state_names import PAST, is_past, left_by
from specc.passes.fuse_round import DRAFTER, between_steps
from specc.targets import Target
from specc_runtime.bundle import Bundle
from specc_runtime.manifest import FEATURES, Program, ProgramKind, StateSpec, TensorSpec

Deed = Literal["built", "run", "checked"]
DEEDS: tuple[Deed, ...] = get_args(Deed)


@dataclass(frozen=True)
class CoreModel:
    """One decoder in core form, S and R open, its topology still an input.

    role: "verifier" or the drafter's key. graph: never changed by a backend; it clones what it lowers.
    head_rows: rows of logits. cache_rows: rows of each of its caches. wide_head: its head is to multiply in fp32, even
    where it reads an embedding table that is stored in 16 bits.
    """

    role: str
    graph: ir.Model
    head_rows: int
    cache_rows: int
    wide_head: bool = False

    def state(self) -> tuple[StateSpec, ...]:
        """The caches, and the features a verifier keeps for a drafter, as pairs of graph input and output."""
        return tuple(self._state_spec(tensor_spec(v)) for v in self.graph.graph.inputs if is_past(v.name))

    def _state_spec(self, spec: TensorSpec) -> StateSpec:
        name = spec.name.removeprefix(PAST)
        owner, role = self.role, f"layers.{name}"
        if name == FEATURES:
            role = FEATURES
        elif name.startswith(f"{FEATURES}."):
            owner, role = name.removeprefix(f"{FEATURES}."), FEATURES
        return StateSpec(
            name=spec.name,
            output=left_by(spec.name),
            owner=owner,
            role=role,
            dtype=spec.dtype,
            shape=tuple(int(d) for d in spec.shape),
        )


@dataclass(frozen=True)
class EmitRequest:
    """What a backend is asked to make programs of.

    gammas: draft lengths. prefill_width: most prompt tokens fed at once. head_ids: per trimmed drafter, the full id of
    each head row. fuse: add `round` programs. loop: add `loop` programs. xla_options: of XLA's compiler, by name.
    """

    target: Target
    verifier: CoreModel
    drafters: Mapping[str, CoreModel]
    head_ids: Mapping[str, NDArray[np.int32]]
    gammas: tuple[int, ...]
    prefill_width: int
    fuse: bool = False
    loop: bool = False
    xla_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """One thing that was really done with a backend's programs.

    did: "built" by the vendor's compiler; "run" on its engine; "checked" by what ran the programs, or stood in for the
    engine, instead. what: the models and programs. where: the machine.
    command: what does it again. result: what came out, where it is more than success.
    """

    did: Deed
    what: str
    where: str
    command: str
    result: str = ""


@dataclass(frozen=True)
class Container:
    """What a host needs to build and run a backend's programs, as a container image says it.

    image: base image with the vendor's libraries, of Debian or Ubuntu; Python 3.11 or newer is added where it has none.
    sources: addresses that state the image and what is added to it.
    packages: of the engine, from PyPI; the version is the manifest's, where its toolchain names the package.
    system_packages: of the engine, from the package repositories that the image has.
    environment: variables the engine wants, by name.
    devices: options of `docker run` that pass the accelerator through.
    on_triton: whether NVIDIA's image of Triton has what these programs want beside `packages`.
    """

    image: str
    sources: tuple[str, ...]
    packages: tuple[str, ...] = ()
    system_packages: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    on_triton: bool = True


@dataclass(frozen=True)
class Backend:
    """A way to make and describe programs.

    name: key of the table of backends, of the manifest, and of the runtime's engines.
    state_dtypes, weight_dtypes: that its caches on a target and its linears may have.
    slack: rows of caches that it writes beyond a chain of the longest gamma.
    emit: lowers, stages and describes the programs of a request. programs: the kinds it emits, each with the request
    options it serves. toolchain: packages whose versions the manifest names.
    measure_threads: the fastest number of engine threads for a written bundle, None where threads mean nothing.
    computed: the dtype that its programs for a target compute a part in. row_scales: its 8-bit weights have one scale a
    row, not one a block. compiler_options: whether its compiler takes options by name.
    default_precision: what a compile to a target takes when none is asked for, as the user would write it; None: the
    reference. default_gammas: draft lengths, likewise; several where their programs share weights.
    portable_because: why programs for a target were not built, if it is worth a word. cache_rows: the rows that caches
    get for at least so many, where a target's compiler wants more. build_script: file of its bundles that builds their
    portable programs on the device; None: they need no building.

    What follows is for pages, a bundle's README and `specc emit`; nothing is compiled by it.
    container: where its programs for a target run, given whether they were built when compiled. summary: the backend in
    a line. eight_bit_verifier: whether the verifier's linears may be int8, too. evidence: what was built and run, and
    where.
    """

    name: str
    state_dtypes: Callable[[Target], frozenset[str]]
    weight_dtypes: frozenset[str]
    slack: int
    emit: Callable[[EmitRequest, Staging], tuple[Program, ...]]
    programs: Mapping[ProgramKind, Collection[str]]
    measure_threads: Callable[[Bundle], int] | None
    toolchain: tuple[str, ...]
    computed: Computed
    container: Callable[[Target, bool], Container]
    row_scales: bool = False
    compiler_options: bool = False
    default_precision: Callable[[Target], str] | None = None
    default_gammas: tuple[int, ...] = (4,)
    portable_because: Callable[[Target], str | None] | None = None
    cache_rows: Callable[[Target, int], int] | None = None
    build_script: str | None = None
    summary: str = ""
    eight_bit_verifier: bool = True
    evidence: tuple[Evidence, ...] = ()


def tensor_spec(value: ir.Value) -> TensorSpec:
    """A graph input or output as the manifest describes it."""
    if value.name is None or value.dtype is None or value.shape is None:
        raise ValueError(f"graph value {value.name!r} has no dtype or shape")
    dims = tuple(d if isinstance(d, int) else str(d.value) for d in value.shape)
    return TensorSpec(name=value.name, dtype=str(value.dtype.numpy()), shape=dims)


def owned_state(state: Iterable[StateSpec], owner: str, prefix: str) -> tuple[StateSpec, ...]:
    """What one decoder owns of its state, under its names in a round: features are the drafter's."""
    owned = (s for s in state if s.owner == owner)
    return tuple(replace(s, name=prefix + s.name, output=prefix + s.output) for s in owned)


def written_stepwise(owned: Iterable[StateSpec], gamma: int) -> tuple[StateSpec, ...]:
    """A drafter's state in a round, `owned_state`'s, with the outputs that hold it between the round's steps."""
    return tuple(replace(s, also=between_steps(s.name.removeprefix(DRAFTER + PAST), gamma)) for s in owned)


def signature(graph: ir.Model, state: Iterable[StateSpec]) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs of a program but for those bound to its state."""
    bound = {name for s in state for name in (s.name, s.output, *s.also)}
    inputs, outputs = (
        tuple(tensor_spec(v) for v in values if v.name not in bound)
        for values in (graph.graph.inputs, graph.graph.outputs)
    )
    return inputs, outputs
