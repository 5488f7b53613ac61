"""Where things are printed: results on stdout, progress and remarks on stderr, colours only on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""


def console(stream: IO[str]) -> "Console":
    """A rich console on `stream`, of the terminal's width if it is one."""
    from rich.console import Console

    return Console(file=stream, width=None if stream.isatty() else _PLAIN_WIDTH, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """`value` as one indented JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Sequence[str] = (),
    stream: IO[str] | None = None,
) -> None:
    """A table on `stream` (stdout). `right`: headers of columns set flush right, for numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console(stream or sys.stdout).print(table)


def print_line(text: str) -> None:
    """One line on stdout."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """One remark on stderr."""
    sys.stderr.write(f"specc: warning: {text}\n")
