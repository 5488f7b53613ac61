"""A manifest's tables, as `compile` and `inspect` print them."""

from collections.abc import Iterable, Mapping

from specc.cli.output import print_line, print_table
from specc.render import byte_count
from specc.speculation.measuring import LEAST_GAIN
from specc_runtime.manifest import Manifest, Program, Speculation, StateSpec, TensorSpec
from specc_runtime.speculation import expected_tokens, predicted_speedups, round_costs

_COMPILER_SIZES = ("argument", "temp", "alias", "code", "headroom")


def print_parts(manifest: Manifest) -> None:
    """Dtype and bytes of every part, and the measured distance of a quantised verifier."""
    rows = [(part.part, part.stored, part.computed, byte_count(part.bytes), part.bytes) for part in manifest.precision]
    headers = ("part", "stored", "computed", "size", "bytes")
    print_table(headers, rows, title=f"precision: {manifest.precision_name}", right=headers[3:])
    if manifest.quality:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in manifest.quality.items())
        print_line(f"distance of the verifier from its checkpoint: {figures}")


def print_memory(manifest: Manifest) -> None:
    """What running the bundle takes, where that was measured."""
    if manifest.resident_bytes is not None:
        size = byte_count(manifest.resident_bytes)
        print_line(f"resident memory to run it to the end of its context: {size}, measured, Python and engine included")


def print_programs(manifest: Manifest) -> None:
    """One line a program."""
    headers = ("program", "kind", "drafter", "width", "accept", "state", "size", "file")
    rows = [_program_row(program, manifest) for program in manifest.programs]
    print_table(headers, rows, title="programs", right=headers[6:7])


def print_executables(manifest: Manifest) -> None:
    """What an accelerator's compiler says of each program it built, and what that leaves of the target's memory."""
    built = [(program.id, program.executable) for program in manifest.programs if program.executable is not None]
    if built:
        rows = [
            (name, *(_size(made.sizes, size) for size in _COMPILER_SIZES), f"{made.seconds:.1f} s")
            for name, made in built
        ]
        headers = ("program", *_COMPILER_SIZES, "compiled in")
        print_table(headers, rows, title="executables, by the compiler's account", right=headers[1:])


def print_speculation(manifest: Manifest) -> None:
    """What was measured of each drafter, and in one line whether drafting pays."""
    for key, drafter in manifest.drafters.items():
        if drafter.measured is not None:
            headers = ("drafted", "round", "break-even", "tokens a round", "predicted speed-up")
            name = key if drafter.source in ("", key) else f"{key} ({drafter.source})"
            title = f"speculation, drafter {name}: {drafter.measured.tokens} tokens decoded greedily"
            print_table(headers, _speculation_rows(drafter.measured), title=title, right=headers)
    print_line(speculation_verdict(manifest))


def speculation_verdict(manifest: Manifest) -> str:
    """Whether the bundle drafts by default, and why."""
    measured = next((drafter.measured for drafter in manifest.drafters.values() if drafter.measured is not None), None)
    if measured is None:
        return f"drafts {manifest.gamma} tokens a round by default; whether that pays was not measured"
    speedups = predicted_speedups(measured)
    best = max(manifest.gammas, key=lambda gamma: speedups[gamma])
    cost, tokens = round_costs(measured.round_s)[best], expected_tokens(measured.acceptance)[best]
    found = f"{speedups[best]:.2f}x predicted: {tokens:.2f} tokens in a round that drafts, break-even {cost:.2f}"
    if manifest.gamma:
        return f"drafting pays: gamma {manifest.gamma} is the default ({found})"
    verdict = f"drafting does not pay here, so plain decoding is the default: the best is gamma {best} ({found})"
    better = max(range(len(speedups)), key=speedups.__getitem__)
    if speedups[better] < LEAST_GAIN:
        return verdict
    return f"{verdict}; gamma {better} would pay ({speedups[better]:.2f}x): compile with --gamma {better}"


def print_signatures(manifest: Manifest) -> None:
    """Inputs, outputs and state of every program."""
    for program in manifest.programs:
        rows = [
            *_tensor_rows("input", program.inputs),
            *_tensor_rows("output", program.outputs),
            *_state_rows(program.state),
        ]
        print_table(("", "name", "dtype", "shape"), rows, title=f"program {program.id}")


def _size(sizes: Mapping[str, int], name: str) -> str:
    return byte_count(sizes[name]) if name in sizes else ""


def _program_row(program: Program, manifest: Manifest) -> list[str]:
    width = str(program.width) if program.width is not None else f"1 to {program.max_width}"
    state = "built" if program.built else "portable"
    entry = manifest.files.get(program.file)
    size = byte_count(entry.bytes) if entry is not None else "not listed"
    return [program.id, program.kind, program.drafter or "", width, program.accept, state, size, program.file]


def _speculation_rows(measured: Speculation) -> list[tuple[str, ...]]:
    """A line a gamma. A drafter without a draft in every round gains in the rounds that have one."""
    columns = zip(
        measured.round_s,
        round_costs(measured.round_s),
        expected_tokens(measured.acceptance),
        predicted_speedups(measured),
        strict=True,
    )
    return [
        (str(gamma), f"{seconds * 1e3:.2f} ms", f"{cost:.2f}", f"{tokens:.2f}", f"{speedup:.2f}x")
        for gamma, (seconds, cost, tokens, speedup) in enumerate(columns)
    ]


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
