"""Where things are printed: results on stdout, progress and remarks on stderr, colours only on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""
_GAP = 2  # columns between two columns of a table


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

    lines = [[str(cell) for cell in row] for row in rows]
    out = console(stream or sys.stdout)
    gaps = _GAP * (len(headers) - 1)
    widths = fitted_widths(list(zip(headers, *lines, strict=True)), out.width - gaps)
    out.width = max(out.width, sum(widths) + gaps)
    table = Table(
        box=SIMPLE_HEAD,
        title=title and Text(title, style="bold"),
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        show_header=any(headers),
        collapse_padding=True,
    )
    for header, width in zip(headers, widths, strict=True):
        table.add_column(header, justify="right" if header in right else "left", width=width)
    for line in lines:
        table.add_row(*map(Text, line))
    out.print(table)
    out.print()


def fitted_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths for `columns` of cells that are `room` together at most, the widest made narrower first.

    None cuts a word: if words alone need more than `room`, every column is as wide as its cells.
    """
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in columns]
    least = [max((cell_len(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    if sum(least) <= room:
        while sum(widths) > room:
            widest = max((i for i, width in enumerate(widths) if width > least[i]), key=widths.__getitem__)
            widths[widest] -= 1
    return widths


def print_line(text: str) -> None:
    """One line on stdout."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """One remark on stderr."""
    sys.stderr.write(f"specc: warning: {text}\n")
