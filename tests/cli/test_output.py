import io

import pytest

from specc.cli.output import console, fitted_widths, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_streams_get_no_colour_and_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    print_table(("name", "value"), [("x" * 120, 1)], title="a title", right=("value",), stream=stream)
    assert "x" * 120 in stream.getvalue(), "a table that nobody sees on a screen is not folded"
    assert "\x1b" not in stream.getvalue()


def test_terminal_sets_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert console(Terminal()).width == 40


@pytest.mark.parametrize(("width", "used"), [(20, 53), (40, 53), (41, 41), (47, 47), (200, 53)])
def test_words_are_never_cut(width: int, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")  # rich takes a dumb terminal for 80 columns wide
    stream = Terminal()
    rows = [("programs/round.drafter.gamma4.onnx", "two words"), ("a", "three small words")]
    print_table(("file", "what"), rows, stream=stream)
    lines = stream.getvalue().splitlines()
    assert all(word in stream.getvalue() for word in "programs/round.drafter.gamma4.onnx two three small".split())
    assert {len(line) for line in lines if "─" in line} == {used}


def test_the_widest_column_gives_way_first() -> None:
    columns = [("name", "abc def"), ("text", "some words " * 4), ("n", "12345")]
    assert fitted_widths(columns, 80) == [7, 44, 5]
    assert fitted_widths(columns, 30) == [7, 18, 5]
    assert fitted_widths(columns, 15) == [5, 5, 5]
    assert fitted_widths(columns, 14) == [4, 5, 5]
    assert fitted_widths(columns, 13) == [7, 44, 5], "words alone need 14"
    assert fitted_widths([("", "")], 3) == [0]


def test_cells_are_text_not_markup() -> None:
    stream = io.StringIO()
    print_table(("name",), [("[bold]x[/bold]",)], stream=stream)
    assert "[bold]x[/bold]" in stream.getvalue()
