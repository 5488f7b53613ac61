"""`specc targets`: the machines specc has figures of, and those it can compile for."""

import click

from specc.backends import usable_backends
from specc.cli.flags import debug_option, json_option
from specc.cli.output import print_json, print_table
from specc.targets import Target, known_targets, load_target

_HEADERS = ("target", "machine", "arch", "GiB", "GB/s", "fp32", "16-bit", "8-bit", "backends")


@click.command("targets", short_help="List the machines specc knows.")
@json_option
@debug_option
def targets_command(as_json: bool) -> None:
    """List the machines specc knows; the first line names those that this version compiles for.

    Memory, its bandwidth, dense peak rates in 10^12 operations a second (empty where the vendor states none), the
    backends to compile with, the default first. --json adds every dtype's rate and the source of every figure.
    """
    targets = [load_target(name) for name in known_targets()]
    if as_json:
        print_json([_record(target) for target in targets])
        return
    ready = ", ".join(target.name for target in targets if _ready(target))
    rows = [_row(target) for target in targets]
    print_table(_HEADERS, rows, title=f"this version compiles for: {ready}", right=_HEADERS[3:-1])


def _ready(target: Target) -> bool:
    """Whether a compile to `target` works without choosing a backend."""
    return target.default_backend in usable_backends(target)


def _record(target: Target) -> dict[str, object]:
    tables = {"tops": dict(target.tops), "sources": dict(target.sources), "xla": dict(target.xla)}
    return {**vars(target), **tables, "ready": _ready(target)}


def _row(target: Target) -> list[str]:
    rates = [_peak(target, "fp32"), _peak(target, "bf16", "fp16"), _peak(target, "fp8", "int8")]
    memory = [_figure(target.memory_gib), _figure(target.bandwidth_gb_s)]
    return [target.name, target.title, target.architecture, *memory, *rates, ", ".join(usable_backends(target))]


def _peak(target: Target, *dtypes: str) -> str:
    """The best rate stated for any of `dtypes`."""
    return _figure(max((target.tops[dtype] for dtype in dtypes if dtype in target.tops), default=None))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if value < 1000 else f"{value:.0f}"
