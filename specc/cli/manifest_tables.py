"""A manifest's tables, as `compile` and `inspect` print them."""

from collections.abc import Iterable

from specc.cli.output import print_line, print_table
from specc.render import byte_count
from specc_runtime.manifest import Manifest, Program, StateSpec, TensorSpec


def print_parts(manifest: Manifest) -> None:
    """Dtype and bytes of every part, and the measured distance of a quantised verifier."""
    rows = [(part.part, part.stored, part.computed, byte_count(part.bytes), part.bytes) for part in manifest.precision]
    headers = ("part", "stored", "computed", "size", "bytes")
    print_table(headers, rows, title=f"precision: {manifest.precision_name}", right=headers[3:])
    if manifest.quality:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in manifest.quality.items())
        print_line(f"distance of the verifier from its checkpoint: {figures}")


def print_programs(manifest: Manifest) -> None:
    """One line a program."""
    headers = ("program", "kind", "drafter", "width", "accept", "state", "file", "size")
    print_table(headers, [_program_row(program, manifest) for program in manifest.programs], title="programs")


def print_signatures(manifest: Manifest) -> None:
    """Inputs, outputs and state of every program."""
    for program in manifest.programs:
        rows = [
            *_tensor_rows("input", program.inputs),
            *_tensor_rows("output", program.outputs),
            *_state_rows(program.state),
        ]
        print_table(("", "name", "dtype", "shape"), rows, title=f"program {program.id}")


def _program_row(program: Program, manifest: Manifest) -> list[str]:
    width = str(program.width) if program.width is not None else f"1 to {program.max_width}"
    state = "built" if program.built else "portable"
    entry = manifest.files.get(program.file)
    size = byte_count(entry.bytes) if entry is not None else "not listed"
    return [program.id, program.kind, program.drafter or "", width, program.accept, state, program.file, size]


def _tensor_rows(role: str, tensors: Iterable[TensorSpec]) -> list[tuple[str, str, str, str]]:
    return [(role, tensor.name, tensor.dtype, _shape(tensor.shape)) for tensor in tensors]


def _state_rows(states: Iterable[StateSpec]) -> list[tuple[str, str, str, str]]:
    """States of one shape as one line: a model has two a layer."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for state in states:
        groups.setdefault((state.owner, state.dtype, _shape(state.shape)), []).append(state.role)
    return [
        ("state", f"{owner}: {len(roles)} buffers, {roles[0]} to {roles[-1]}", dtype, shape)
        for (owner, dtype, shape), roles in groups.items()
    ]


def _shape(shape: tuple[int | str, ...]) -> str:
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
