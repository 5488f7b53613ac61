"""The command group and its entry point."""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from specc import __version__
from specc.cli.backends import backends_command
from specc.cli.bench import bench_command
from specc.cli.check import check_command
from specc.cli.compile import compile_command
from specc.cli.draft import draft_command
from specc.cli.emit import emit_command
from specc.cli.failures import Settings, exit_code
from specc.cli.flags import debug_option
from specc.cli.inspect import inspect_command
from specc.cli.run import run_command
from specc.cli.targets import targets_command


class _InOrder(click.Group):
    """Lists commands in the order they are added, which is the order they are used in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    name="specc", cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, message="specc %(version)s")
@debug_option
def group() -> None:
    """Compile a verifier and a drafter into exact multi-token programs, and run them."""


for _command in (
    compile_command,
    run_command,
    bench_command,
    inspect_command,
    check_command,
    emit_command,
    targets_command,
    backends_command,
    draft_command,
):
    group.add_command(_command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code: 0 done, 1 failed, 2 not understood."""
    settings = Settings()
    return exit_code(lambda: group.main(arguments, prog_name="specc", standalone_mode=False, obj=settings), settings)


def main() -> NoReturn:
    """The `specc` script. Text the terminal's encoding lacks is replaced, not an error."""
    _open_closed_streams()
    _end_like_ctrl_c()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    sys.exit(run())


def _open_closed_streams() -> None:
    """Streams that the caller closed lead nowhere, before a file that is opened next takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _end_like_ctrl_c() -> None:
    """A polite kill, or the terminal closing, leaves no half-made files either; who ignores them (nohup) goes on."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
