"""Where things are printed: results on stdout, progress and remarks on stderr, colours only on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""
_UNLIMITED = 10_000


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
    """A table on `stream` (stdout). `right`: headers of columns set flush right, for numbers.

    Cells are folded between words to fit a terminal; where words do not fit either, the table keeps its full width. An
    empty line follows.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        title=title and Text(title, style="bold"),
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        show_header=any(headers),
        collapse_padding=True,
    )
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    out = console(stream or sys.stdout)
    needed = table.__rich_measure__(out, out.options.update(max_width=_UNLIMITED))
    if needed.minimum > out.width:
        out.width = needed.maximum
    out.print(table)
    out.print()


def print_line(text: str) -> None:
    """One line on stdout."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """One remark on stderr."""
    sys.stderr.write(f"specc: warning: {text}\n")
