import io

import pytest

from specc.cli.output import console, print_table


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


@pytest.mark.parametrize("width", [20, 41, 200])
def test_words_are_never_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    rows = [("programs/round.drafter.gamma4.onnx", "two words"), ("a", "three small words")]
    print_table(("file", "what it is"), rows, stream=stream)
    text = stream.getvalue()
    assert all(word in text for word in "programs/round.drafter.gamma4.onnx two words three small".split())
    (rule,) = {line for line in text.splitlines() if "─" in line}
    assert len(rule) == (41 if width == 41 else len(rows[0][0] + "  " + rows[1][1]))


def test_cells_are_text_not_markup() -> None:
    stream = io.StringIO()
    print_table(("name",), [("[bold]x[/bold]",)], stream=stream)
    assert "[bold]x[/bold]" in stream.getvalue()
